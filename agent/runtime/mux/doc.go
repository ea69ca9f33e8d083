// Package mux lets one kubelet use several container runtimes.
//
// It serves the CRI on a unix socket and hands every call on to the runtime
// service that owns the sandbox, container or image which the call is about.
// Calls about everything are answered by all runtimes together; calls about
// the runtime itself by the primary one, whose short failures the kubelet does
// not get to see. On the way, host names of tenants' pods become native.
//
// Invariants: every call is handed on, also one that this version does not
// know; messages are decoded only where that is needed to route or to merge;
// a pod is never handed to a runtime of another workload type; what a secondary
// runtime ran when it was last heard of stays listed while it is unreachable,
// so that the kubelet neither declares its pods dead nor starts them elsewhere;
// of files, only the kubelet's own hosts file of a tenant's pod is written, and
// the runtime's own records.
//
// agent's wiring may import it. It imports no Kubernetes server code.
package mux
