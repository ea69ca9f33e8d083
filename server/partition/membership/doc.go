// Package membership is how a partition becomes one of a cluster: what a server knows of
// its own partition, on disk, and the register that the home partition keeps.
//
// Invariants: the identity of a partition is written before it is registered, so that an
// interrupted start goes on as the same partition; a name belongs to the first identity
// that registers it; what a partition was registered with never changes but for its
// servers; one that was removed is never registered again; whoever shows no server token
// registers the partition of their certificate only (package nodeapi).
//
// Only server may import it.
package membership
