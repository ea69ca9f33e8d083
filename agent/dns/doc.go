// Package dns is the cluster DNS server that runs inside every node's process.
//
// It answers the cluster domain and the reverse zones of the service and pod
// ranges from informers, per the Kubernetes DNS specification 1.1.0, and
// forwards everything else to the resolvers of the host. CoreDNS, used as a
// library, supplies the protocol, the cache and the forwarding; the backend is
// ours, because it answers by who asks: every lookup goes through Store.View
// with the client's source address.
//
// The server listens on the cluster DNS service address, which the package
// puts on a link of the node; connection tracking is off for it, so that
// kube-proxy leaves it alone and the pod's source address stays visible
// (docs/developing/adr/0004-cluster-dns-in-process.md).
//
// Invariants: until all informers have synced, names of the cluster are
// answered SERVFAIL, never NXDOMAIN. Names of the cluster domain never leave
// the node. Answers about the cluster are never cached, since a cache is
// shared between sources. A pod of a tenant gets the tenant's own names, in
// native form, those of shared Services, and the API's; for everything else in
// the cluster it gets the same answer as for a name that does not exist. Who
// is no pod and no address of this node is refused. What a client holds,
// connections and queries in flight, is bounded for each tenant and in all, and
// the system space has slots of its own; a query that waits for resolvers
// outside holds none that a name of the cluster needs. The package keeps no
// state between two runs except the link and the rules, which stay until
// killall.
//
// Only the agent's wiring and killall may import it. It imports client-go and
// CoreDNS, not k8s.io/kubernetes.
package dns
