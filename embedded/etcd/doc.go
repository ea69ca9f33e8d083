// Package etcd runs etcd inside the a4s process as a single local member, or reaches the
// members of other servers (Remote).
//
// Invariants: it listens on loopback only and asks every client and peer for
// a certificate of its own CAs; who shares its process may call it without
// (Local), until it closes; what etcd calls fatal ends the component with its
// reason and not the process; Close is called on every way out, so that a clean
// stop leaves a clean backend file.
//
// server may import it. It imports no Kubernetes code.
package etcd
