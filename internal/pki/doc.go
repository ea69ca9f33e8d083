// Package pki makes, checks and renews the keys and certificates of a server,
// and signs the certificates of nodes.
//
// Invariants: the CAs and the service-account key appear all together on first
// start, some of them perhaps given, and are never made again unasked, because
// everything that trusts them would be lost without a word: a missing or
// damaged one is an error that names the file. Rotate and Take replace them in one
// step while no server runs. Leaf certificates are renewed at start and while
// a4s runs, with the key they had, so that a certificate file always fits its
// key file. Keys have mode 0600 in a directory of mode 0700 and never leave
// this machine, but for those that all servers of a cluster share (shared.go).
// From a signing request only the public key is taken; subject and names are
// the caller's decision.
//
// server and agent may import it. It imports no Kubernetes code.
package pki
