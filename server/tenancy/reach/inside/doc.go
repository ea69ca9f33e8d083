// Package inside holds the addresses of the whole cluster, as far as its
// partitions say them: the ranges of pods and Services, and the servers. The network
// is one, so what is inside for one partition is inside for all.
//
// Invariants: it is asked anew whenever the partitions change, so that one which
// joins later counts at once; while it is not known which partitions there are,
// or a range cannot be read, nothing is said to be outside; addresses are
// compared in one form, in which IPv4 is IPv4 however it is written.
//
// server's wiring and server/tenancy may import it.
package inside
