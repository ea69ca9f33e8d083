// Package vm runs pods as virtual machines: a container runtime that the
// kubelet uses through the CRI.
//
// One QEMU is one pod sandbox. Its guest, a kernel and a small init program,
// runs the pod's containers as processes, each on a disk of its own; or the
// one container's image carries a disk that is booted with firmware.
//
// The service runs in a process of its own (`a4s vm-runtime`), which the package
// supervisor starts. Virtual machines outlive it: they are found again at its start.
//
// Invariants: whatever the service makes on the machine (process, tap, disk,
// mount, cgroup) is recorded before it is made, so that a service that was
// killed at any point leaves nothing that its successor does not know or
// remove; a container that has ended never runs again.
//
// The wiring of cmd may import it. It imports no Kubernetes server code.
package vm
