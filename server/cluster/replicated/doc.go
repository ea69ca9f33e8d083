// Package replicated keeps a document that all servers of a cluster share in
// etcd: a sealed record, and a report of each server on what it has applied.
//
// Invariants: a record is replaced only in one transaction that compares the
// revision, so of two changes at a time one fails; the datastore has the content
// only sealed, and what was not sealed with the same secret, purpose and key
// does not open, not even in part; the members are read after the reports, so a
// member that is not among them reads what was written before.
//
// The packages in server/cluster whose subject is such a document may import it
// (encryption, cas), and server, which connects them. It imports no Kubernetes
// code.
package replicated
