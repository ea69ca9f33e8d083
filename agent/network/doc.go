// Package network connects the pods of all nodes: flannel as a library for
// the traffic between nodes, and the CNI configuration for the pods of this
// one.
//
// Invariants: the CNI configuration appears last and atomically, because the
// node becomes Ready when it does; a restart with the same pod range keeps
// the vxlan device and the traffic of running pods; a deleted vxlan device or
// a changed pod range ends the component with the reason, and its restart
// sets everything up anew.
//
// The agent wiring may import it. It imports client-go and no Kubernetes
// server code.
package network
