// Package cas replaces the CAs of servers that share embedded etcd: one server
// issues the new ones and puts them into a replicated document of the cluster;
// each server fetches them into a file, and takes them at its next start.
//
// Invariants: new CAs are issued only while all servers run and work with the
// same CAs, so no server is ever two steps behind; a server takes only CAs that
// follow its own; nothing in use changes while a server runs; the datastore has
// no key in clear.
//
// Only server may import it. It imports no Kubernetes code.
package cas
