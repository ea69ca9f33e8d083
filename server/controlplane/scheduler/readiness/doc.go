// Package readiness is the scheduler's plugin NodeRuntimeReadiness: a pod goes
// only to a node that has a ready runtime for its type of workload
// (partial runtime readiness, "CheckNodeRuntimeReadiness").
//
// Invariants: a node without the condition is not ready; a pod waits in the
// scheduler's queue until something changes that can help it; the rules are
// those of internal/workload.
//
// server/controlplane/scheduler imports it. It imports no k8s.io/kubernetes.
package readiness
