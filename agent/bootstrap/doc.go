// Package bootstrap serves the API that runs pods without an API server, and
// offers these pods to the API server for as long as it takes (the "Kubelet
// Pod API").
//
// The pods are in agent/bootstrap/store; agent/origin shows them to the kubelet
// among its own. Nothing here starts a container.
//
// Invariants: only root, or the user that a4s runs as, is answered, whatever
// the mode of the socket; what is answered with 201 is on disk; every refusal
// is a metav1.Status; no failure of the server ends the loop that offers pods.
//
// agent's wiring may import it. It imports no Kubernetes server code.
package bootstrap
