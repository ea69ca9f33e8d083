// Package e2e holds the end-to-end tests: they run the built a4s binary on
// hosts of package tests/hosts, with real pods, and judge it only by its
// command line, its API, its files and what the pods answer.
//
// Invariants: a test that stops, kills or damages an a4s does so to one of its
// own or runs before the parallel tests, and so does one that looks at what hosts
// have in common; every wait ends by a condition or a
// deadline, and a failed one prints pods, events, nodes and the end of the
// log; nothing is left on the machine, whatever the outcome.
//
// It needs root, the binary (A4S_BINARY, or bin/a4s of the repository) and
// what the images are built from: a Go toolchain and Debian's apt. It imports
// nothing of k8s.io/kubernetes, so that it builds in seconds.
package e2e
