// Package vmpods runs pods in virtual machines, through the CRI of the VM
// runtime that is carried in a4s, with a real containerd, CNI plugins and
// QEMU; and critest, the conformance tests of the CRI.
//
// Invariants: everything runs in network and mount namespaces of its own, with
// memory for /run; the guest is the one that `make guest` builds; without
// A4S_VM_PODS the tests are skipped, because they are slow where there is no
// KVM. `make test-vmpods` and `make test-critest` run them.
//
// Nothing imports it.
package vmpods
