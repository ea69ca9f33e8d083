// Package kine keeps the control plane in a database instead of an etcd: it
// runs kine inside the a4s process, which speaks etcd's protocol on a unix
// socket and SQL, or the protocol of NATS, to the database.
//
// Invariants: the socket is for root alone and this process is its only
// client; no error has the password of the database in it; what kine leaves
// out of etcd's protocol and a4s needs is added here (bridge.go), so that no
// other package tells datastores apart; the file of SQLite gives back what
// compaction frees (sqlite.go).
//
// server may import it. It imports kine's drivers one by one and not its
// package endpoint, which brings a key-value store of its own and the client of
// a cloud. It imports no Kubernetes code.
package kine
