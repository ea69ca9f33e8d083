// Package readiness tells the cluster which runtimes of this node are ready,
// by conditions and an annotation of its Node (partial runtime readiness).
//
// Each type of workload that has a runtime has one condition. It is that of
// the default runtime of the type, the first one registered, because this is
// where pods of the type go; its message names all of them.
//
// Invariants: a change is reported at once, not with the kubelet's next
// status; a type without a runtime has no condition; the time of the last
// transition changes only with the status; nothing else of the Node is
// touched, so the kubelet and other writers are never overwritten; what
// cannot be reported now is tried again until it is.
//
// agent's wiring may import it. It imports no Kubernetes server code.
package readiness
