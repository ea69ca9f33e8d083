// Package authorities replaces the CAs of servers that share embedded etcd:
// one server makes the new ones and puts them, sealed, into the datastore; each
// server fetches them into a file, and takes them at its next start.
//
// Invariants: new CAs are made only while all servers run and work with the
// same CAs, so nobody is ever two steps behind; a server takes only what follows
// the CAs that it has; nothing in use changes while a server runs; the datastore
// has no key in clear.
//
// Only server may import it. It imports no Kubernetes code.
package cas
