// Package gatewaysuite is the conformance suite of the Gateway API, of a pinned
// version and unchanged: `go test -c sigs.k8s.io/gateway-api/conformance` here
// compiles it. Its program for pods, sigs.k8s.io/gateway-api/conformance/echo-basic,
// is built here as well. `make test-gateway` builds both, and tests/e2e runs the
// suite against a cluster (TestGatewayConformance).
//
// Invariants: it is a module of its own, because what the suite depends on is not
// to be a4s' as well; what both have is in the same versions, and the Gateway API
// is that of a4s' go.mod.
//
// Nothing imports it.
package gatewaysuite
