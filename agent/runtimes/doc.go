// Package runtimes lets one kubelet use several container runtimes.
//
// It serves the CRI on a unix socket and hands every call on to the runtime
// service that owns the sandbox, container or image which the call is about.
//
// agent's wiring may import it. It imports no Kubernetes server code.
package runtimes
