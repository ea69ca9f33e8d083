// Package localpods knows which tenant is behind an address of this node's pod
// network.
//
// Two sources are merged. What the container network attached last is the
// truth about an address, and known before the first process of a pod runs;
// the API knows what else matters about a pod, and pods of a container network
// that leaves no record, though only a second or two after their start.
//
// Invariants: pods with the node's own network have no entry, they are the
// node; a pod that ended has none either, since its address may belong to
// another one by now; while the API cannot be reached, the last state stays.
//
// agent's wiring, agent/dns and agent/network/packetfilter may import
// it. It imports no Kubernetes server code.
package localpods
