// Package topology has upstream's plugins PodTopologySpread and InterPodAffinity look only at the nodes whose pods
// can count for the pod at hand.
//
// Upstream's go through all nodes for each pod of a Deployment, since its default constraints spread over host names
// and zones. Both count pods of certain namespaces, and a node without any adds nothing: the plugins here are
// upstream's, and only the lists of nodes that they read are shorter. So the results are upstream's exactly, which a
// test compares for clusters and pods at random; what changes is that a pod costs as much as its own namespace is
// large, and not as much as the cluster.
//
// The index of which nodes have pods of which namespace is made from the scheduler's own snapshot, by the generation
// of each node: nothing is kept beside it that could differ from it. Terms of affinity of a tenant's pods reach only
// the tenant's own space (internal/references composes their namespaces and selectors), those of the system's all.
//
// For constraints that say DoNotSchedule all nodes are looked at, as upstream does: domains without pods count there.
//
// Only server/controlplane/scheduler may import this.
package topology
