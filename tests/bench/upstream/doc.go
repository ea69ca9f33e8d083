// Package upstream compares a4s with what it is made of: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubelet, kube-proxy and containerd
// as the seven programs that their projects make of them. They are built from
// the module in programs, with the versions and the settings that a4s is built
// with, and run on a machine of their own beside one that runs a4s; package sides
// starts both.
//
// Invariants: every round measures all sides, one after the other in changing
// order, or at the same time. Nothing here fails because of a number.
//
// With A4S_BASE another binary of a4s is in the place of upstream's programs: what a
// change of a4s costs that one who does not use it should not pay for.
//
// `make bench` runs them, as root, and leaves rounds and charts in bin/bench.
// Nothing imports it.
package upstream
