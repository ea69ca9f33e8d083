// Package notready marks the pods of a tenant partition on copies of nodes that are not
// ready. Upstream does that in its controller of the life of nodes, which runs at the
// resource partition, where the pods are not.
//
// Invariants: a pod is marked by upstream's own function and at most once while its
// node is not ready; nothing is marked while more than 55 % of the nodes of the resource
// partition are unknown, because then it is the partition, or the network, that failed;
// nodes that are no copies are left to upstream.
//
// Only server may import it.
package notready
