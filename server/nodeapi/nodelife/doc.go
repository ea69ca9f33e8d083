// Package nodelife keeps what the cluster knows of each node by itself: which certificates are
// good, and which addresses the node joined with. It stands in a Secret of kube-system, which
// no node can read or write.
//
// A certificate says in its subject which life of the node it is of. A life begins when a
// machine joins with the token and there is none, and ends when the Node is deleted, by
// whomever, or its credential is revoked; then all certificates of it are dead on all servers,
// and a machine with the token begins another. Certificates of an older release say no life:
// they are good in the one in which the record was made.
//
// Invariants: of a node without a record every certificate is good (it joined an older release
// or the datastore was restored from a snapshot of a time before it joined), so the end of a
// life is always written down; what cannot be read is dead; what is not known yet is refused
// as such; addresses change by a join with the token only.
//
// Only server may import it.
package nodelife
