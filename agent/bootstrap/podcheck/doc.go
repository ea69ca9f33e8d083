// Package podcheck turns what somebody posted into the pod that a node runs:
// read strictly, completed by upstream's defaults, judged by upstream's
// validation and by what a pod without an API server cannot have.
//
// Invariants: the result is what an API server would make of it, so that the
// pod does not change when one takes it over; every refusal is a
// *apierrors.StatusError that names the fields.
//
// agent's wiring imports it, and nobody else needs to: it is the one place of
// bootstrap pods that links Kubernetes server code.
package podcheck
