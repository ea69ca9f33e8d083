// Package isolation keeps the pods of tenants apart on the network: on every
// node an nftables table of our own drops what a pod of one tenant sends to a
// pod of another, whether it is routed or crosses the node's bridge.
//
// A pod of a tenant reaches pods of the same tenant and those of the system
// space that are marked with space.Shared; pods of the system space reach
// everybody; nodes, the API server, DNS and the world outside are not touched,
// nor is what comes from there. Answers to what was allowed pass. The node of
// the sender and the node of the receiver both judge, by different knowledge:
// whose pods are its own a node sees with its own eyes, of the others a server
// tells the tenant of every address, and nothing more.
//
// Invariants: towards and from tenants' pods, an address of the pod network
// that nobody knows is treated as another tenant's. Rules change in one
// transaction. The table stays when the agent ends, as the pods do, and while
// no server answers the last state stays; only killall removes it. The mark of
// packets is not used, it is kube-proxy's.
//
// What it cannot do: a container that may forge packets (CAP_NET_RAW) can lie
// about its address to receivers on its own node's bridge.
//
// agent's wiring may import it. It imports no Kubernetes server code.
package isolation
