// Package servers is which servers the cluster has, where the members of embedded etcd do
// not say it: each keeps a Lease in kube-system that says its name, its address and its
// service group, and reads those of the others. A server that is such a member and in no
// group only reads.
//
// Invariants: a server is ready while its Lease is renewed, by this server's own clock;
// the Lease of a server that is gone stays until an administrator deletes it, so that
// its name and address are nobody else's meanwhile.
//
// The wiring of the server imports it.
package servers
