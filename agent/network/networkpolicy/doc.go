// Package networkpolicy enforces NetworkPolicy for the pods of this node, in an
// nftables table of our own: what comes to a pod is judged by the policies that
// select it for ingress, what it sends by those that select it for egress. Each
// node judges for its own pods; both sides have to allow a connection.
//
// A server tells which policies a pod is under and which addresses they allow,
// by the name of the pod and before it runs. Which pod has which address a node
// sees with its own eyes. Until both are known nothing is forwarded to an
// address of the pod network here or from it, so there is no moment in which a
// new pod can be reached that must not be. A pod that the API has not known for
// a while, such as a static one whose copy is missing there, is then under no
// policy.
//
// Packets are judged where they are forwarded, after Services were resolved, and
// whether they are routed or cross the bridge. The node itself always reaches
// its pods and is reached by them, with its DNS, and a pod reaches itself.
// Connections that are open stay open. Protocols without ports pass where a rule
// names no ports.
//
// Invariants: a pod that comes or goes changes elements of sets and maps; rules
// change with policies only. Every change is one transaction. The table stays
// when the agent ends, as the pods do, and while no server answers the last state
// stays; without any policy in the cluster there is no table. Names of others
// become part of no rule but in hashed form. The mark of packets is not used, it
// is kube-proxy's. Tenants are kept apart by agent/network/isolation whatever is allowed
// here: both tables have to let a packet pass.
//
// What it cannot do: a container that may forge packets (CAP_NET_RAW) can lie
// about its address.
//
// agent's wiring may import it. It imports no Kubernetes server code.
package networkpolicy
