// Package encryption makes the configuration that encrypts Secrets at rest.
//
// Invariants: a key is made once and never replaced here; turning encryption
// off keeps the keys, so that what was written under them stays readable; the
// file has mode 0600.
//
// Only server may import it. It imports no Kubernetes server code.
package encryption
