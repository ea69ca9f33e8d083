// Package connect connects servers of a partition with those of others.
//
// Invariants: a connection goes to a server of the partition that was asked for, or to
// none; each has a certificate that only an API server of the cluster can have; an address
// that does not answer is passed over for a while if there is another.
//
// Only server may import it.
package connect
