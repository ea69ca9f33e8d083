// Package process starts processes that outlive this one and finds them again.
//
// A process is known by a file with its id, its start time and the boot it
// belongs to, so that a reused id is never taken for it.
//
// Invariants: a process is signalled only through a descriptor of itself, so
// never a stranger; Done is closed when the process has ended, whoever started
// it; a process inherits no descriptors but those that it is given.
//
// The packages below agent/vm may import it. It imports no Kubernetes code.
package process
