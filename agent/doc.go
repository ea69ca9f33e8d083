// Package agent wires agent mode: payload, containerd, join, images, kubelet,
// pod network, service proxy and DNS. It is the one place where the structs of
// agent/* meet.
//
// Invariants: the node's only identity is its own certificate, which every
// part uses through one kubeconfig; what can be refused is refused before
// anything is changed; stopping leaves pods running, only `a4s killall` ends
// them.
//
// main and tests/e2e may import it.
package agent
