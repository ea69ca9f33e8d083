// Package nsindex has informers whose index by namespace is small.
//
// Upstream's index has a set for every namespace, 250 bytes for the one
// service account that a namespace without pods has, in each set of informers.
// Here namespaces share a fixed number of sets, and who asks for one gets of its
// set what is in the namespace. That takes longer than a set of its own, and
// less than looking at all objects; it is for kinds that are asked for by
// namespace and name, and seldom for all in a namespace.
//
// Invariants: an indexer answers as upstream's does. The sets are of namespaces
// as they are stored, those of different tenants among each other: nobody learns
// of an object of another namespace.
//
// server and what is below it may import it.
package nsindex
