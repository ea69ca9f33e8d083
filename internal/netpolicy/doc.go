// Package netpolicy is how a server tells a node which network policies its
// pods are under: with every selector resolved to addresses, so that a node
// learns nothing of pods that its own may not talk to.
//
// The server streams values of type Line, one a line, as JSON. A line with
// Complete ends a batch: what came since the one before is one change, and the
// first batch is everything. A batch that has nothing else keeps the connection
// alive. In a FilterLine such lines come together with the pods' addresses.
//
// Invariants: within what a node was told by the end of a batch, every policy
// that a pod names and every set that a policy names exists; protocols are
// TCP, UDP and SCTP; names are composite.
//
// server/addons/networkpolicy, server/nodeapi and agent/network/packetfilter may
// import it. It imports internal/joinapi, and nothing of Kubernetes.
package netpolicy
