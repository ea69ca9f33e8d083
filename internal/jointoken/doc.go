// Package jointoken is the join token of a cluster: its text form, the files
// in which a server keeps it, and the check of a presented one.
//
// A token is `K10<hash>::<user>:<password>`, where hash pins the server CA
// (see pki.HashBundle), or `K10<hash>::<id>.<secret>` with a Kubernetes
// bootstrap token, or either of the two without the pin.
//
// Invariants: no error and no formatting verb prints a secret, only Encode
// does; passwords are compared in constant time; the files have mode 0600 and
// change atomically.
//
// server, agent and cmd may import it. It imports no Kubernetes code.
package jointoken
