// Package packetfilter judges the traffic of this node's pods, in an nftables
// table of our own that has two parts.
//
// The tenants' part drops what a pod of one tenant sends to a pod of another,
// whether it is routed or crosses the node's bridge. A pod of a tenant reaches
// pods of the same tenant and those of the system space that are marked with
// space.Shared; pods of the system space reach everybody; nodes, the API server,
// DNS and the world outside are not touched, nor is what comes from there. The
// node of the sender and the node of the receiver both judge, by different
// knowledge: a node sees which pods are its own, and a server tells the tenant
// of the other addresses that its pods can reach, and nothing more.
//
// The policies' part enforces NetworkPolicy: what comes to a pod is judged by
// the policies that select it for ingress, what it sends by those that select it
// for egress. Each node judges for its own pods. A server tells which policies a
// pod is under and which addresses they allow, by the name of the pod and before
// it runs. A node sees itself which pod has which address. Until both are known
// nothing is forwarded to an address of the pod network here or from it. A pod
// that the API has not known for a while, such as a static one whose copy is
// missing there, is then under no policy. The node itself always reaches its pods
// and is reached by them, with its DNS, and a pod reaches itself. Protocols
// without ports pass where a rule names no ports.
//
// One stream of a server tells both, and one loop writes both, each part in
// transactions of its own: the isolation of tenants does not depend on policies,
// which can be disabled, unknown or impossible to write. Each part is a component
// with its own state. Three base chains, one for tenants and two for policies,
// all have to let a packet pass: what one accepts, the next still judges.
//
// Invariants: towards and from tenants' pods, an address of the pod network that
// nobody knows is treated as another tenant's. Answers to what was allowed pass,
// and connections that are open stay open. A pod that comes or goes changes
// elements of sets and maps. The table stays when the agent ends, as the pods do,
// and while no server answers the last state stays. Without any policy in the
// cluster there is no policies' part. Names of others become part of the policies'
// rules in hashed form only. The tables of earlier versions, one for each part,
// go once the part is written. The mark of packets is not used, it is kube-proxy's.
//
// What it cannot do: a container that may forge packets (CAP_NET_RAW) can lie
// about its address to receivers on its own node's bridge.
//
// agent's wiring may import it. It imports no Kubernetes server code.
package packetfilter
