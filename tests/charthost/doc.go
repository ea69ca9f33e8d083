// Package charthost makes Helm charts and serves them as a repository and as an OCI registry, on loopback, for tests
// of what installs them.
//
// Invariants: what New starts ends with the test; every request is counted with what it was authorized by.
//
// Only tests may import it.
package charthost
