// Package supervisor runs the service of agent/vm as a child process.
//
// The service is a process of its own so that virtual machines go on while a4s
// is restarted or replaced.
//
// Invariant: at most one service has a directory. One that a killed a4s left
// behind is ended before the next one starts.
//
// agent's wiring may import it. It imports no Kubernetes server code and not
// agent/vm itself, whose code runs in the child only.
package supervisor
