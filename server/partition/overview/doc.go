// Package overview tells administrators, on any server, how each partition of the cluster is,
// as this server sees it.
//
// Invariants: an answer takes less than three seconds, whatever is down or hangs; what is
// not known is not told; partitions and tenants are those that this server knows, so that it
// needs no other one.
//
// Only server may import it.
package overview
