// Package qualify gives the objects of a tenant partition the names by which a node that
// it shares with others knows them, and takes them back: "kube-system" of tp2 is
// "kube-system.tp2.system" there (see internal/space).
//
// Which field of which kind holds a name is said by internal/references, the table by
// which the edge translates for tenants. Of it the names of namespaces and of
// cluster-scoped objects are mapped. Users are mapped by agent/origin/route where a node
// asks about them; texts, labels, selectors and owners stay as they are, since nothing on
// a node finds an object by them.
//
// Invariants: Of(p).Map undoes To(p).Map; names of tenants, and of other partitions, stay
// as they are; a field that holds the name of a namespace is mapped in every kind
// (TestEveryNamespaceIsMapped).
//
// agent/origin/route and agent/origin/merge may import it. It imports no Kubernetes
// server code.
package qualify
