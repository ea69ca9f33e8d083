// Package partitions knows which partitions the cluster has and how this node reaches them:
// what the servers of its resource partition tell, kept on disk, with a dialer over the
// servers of each tenant partition. It is the origin.Partitions of agent/origin/route.
//
// Invariants: a partition leaves only by a complete list, one that the server has from the home
// partition; what a server merely knew last counts for a node that never had a pod and knows
// nothing; a list that cannot be right is not taken over; requests go to servers only that
// prove to be API servers of this cluster.
//
// agent's wiring may import it. It imports no Kubernetes server code.
package partitions
