// Package server answers the calls of a virtual machine's host: it keeps the
// pod's containers, their output and their exit codes, whether or not a host is
// connected. What touches the machine is behind Machine.
//
// Invariants: a container's process is started once; its exit code and its
// output stay until the container is removed; output that no host acknowledged
// is bounded by maxOutput, beyond which the container's writes wait.
//
// The init of virtual machines and tests of its client import it.
package server
