// Package proxy runs upstream's kube-proxy inside the process.
//
// Invariants: the mode is chosen by trying it on the kernel; arguments of the
// user replace ours by name, and those that would end the process or hide the
// others are refused; conntrack limits and the OOM score of the process are
// left as they are. Upstream's loops do not end with their context: stopping
// the component returns at once and the loops end with the process, so that
// services keep working until then. A start that failed can be repeated.
//
// The agent wiring may import it.
package proxy
