// Package notready marks the pods of a tenant partition on copies of nodes that are not
// ready. Upstream does that in its controller of the life of nodes, which runs at the
// resource partition, where the pods are not.
//
// Invariants: a pod is marked by upstream's own function and at most once while its
// node is not ready; nothing is marked of a resource partition that does not answer, whose
// nodes are as they were; while more than 55 % of its nodes are unknown it may be the way
// to its servers that failed, so no pod is marked of a node whose kubelet answers this
// server; nodes that are no copies are left to upstream.
//
// Only server may import it.
package notready
