// Package hollow has nodes with nothing behind them, to ask of a control plane
// what that many kubelets would.
//
// A hollow node has a certificate and a connection of its own. It registers, as
// a kubelet does with a ready runtime, renews its lease every ten seconds, and
// watches the pods that are bound to it: it says of each that it is running, or
// that it failed if the node has not the processors for it, and removes it when
// it is to end. In a cluster of several partitions it registers with one and
// takes the pods of others, over a connection to each. It runs nothing, writes no
// events and renews no heartbeat in its status, which a kubelet does every five
// minutes.
//
// Invariants: a node goes on until its context ends, whatever the server
// answers; what it was refused is counted and tried again.
//
// Only benchmarks and tests import it. It imports nothing of k8s.io/kubernetes.
package hollow
