// Package settings has the settings of the runtime of virtual machines, and
// finds what of them a machine lacks.
//
// The service (agent/vm) and its supervisor (agent/vm/supervisor) are processes
// of their own and share these settings: the one has them as flags that the
// other writes.
//
// Invariant: Preflight changes nothing.
//
// agent/vm, agent/vm/supervisor, agent's wiring and cmd's may import it. It
// imports no Kubernetes code.
package settings
