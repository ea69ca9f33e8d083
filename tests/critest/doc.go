// Package critest is critest, the conformance tests of the CRI, of a pinned
// version: `go test -c sigs.k8s.io/cri-tools/cmd/critest` here compiles it, and
// tests/vmpods runs it. `make test-critest` does both.
//
// Invariants: it is a module of its own, because what critest depends on is not
// to be a4s' as well.
//
// Nothing imports it.
package critest
