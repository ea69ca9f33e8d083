// Command shim is containerd-shim-runc-v2 as a4s carries it: upstream's shim
// manager and task service, a limit of the terminals of each container, and the
// removal of what a killed shim leaves.
//
// It is its own binary because one of it runs beside every pod: the a4s binary
// in its place would cost ten times the memory and would initialise the whole
// of Kubernetes on every exec (see docs/developing/adr/0001-one-binary.md).
//
// Only the payload builder (scripts/payload) builds it; nothing imports it.
package main
