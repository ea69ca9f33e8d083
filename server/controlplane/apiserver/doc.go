// Package apiserver assembles the API server from upstream's libraries:
// options, then configuration, then the seams of a4s, then the server chain.
//
// Invariants: no upstream code is copied or changed; everything a4s adds goes
// through Seams, so that a zero Seams is a plain Kubernetes API server; the
// seams are applied before any other part captures what they wrap; Run drains
// requests and watches before it returns.
//
// Only server may import it.
package apiserver
