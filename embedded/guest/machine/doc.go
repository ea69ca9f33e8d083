// Package machine is what a pod's virtual machine does to itself for its
// containers: it boots as process 1, mounts disks, sets up the network, and runs
// processes in mount and PID namespaces and control groups of their own.
//
// The pod is the machine, so its containers share the machine's network, UTS and
// IPC namespaces. A process is started in two steps: this program runs itself
// again in the new namespaces (Stage), which prepares the rest and executes the
// container's program.
//
// Invariants: only the reaper waits for children; a process is signalled only
// while it is not reaped, so never another one with its number; paths of a
// container are followed inside of its root only; what Remove returns for is
// unmounted, so that its disk can be taken away.
//
// The init of virtual machines imports it, which is Linux without a C library.
package machine
