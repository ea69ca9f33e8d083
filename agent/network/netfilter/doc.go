// Package netfilter finds out what packet filtering the machine can do, and
// removes tables and chains from it.
//
// Invariants: probing leaves nothing behind, it happens in one transaction
// that ends by deleting its own table; removal touches only what the caller
// names and the jumps to it, in one transaction per table, never the rules of
// others.
//
// Packages of agent may import it. It imports no Kubernetes server code.
package netfilter
