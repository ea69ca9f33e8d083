// Package component supervises the long-running parts of an a4s process.
//
// Every part (datastore, API server, scheduler, kubelet, DNS server…) is a
// Component: a name and a Run function that blocks until its context ends.
// A Group starts components in order, reports the reason when one exits,
// restarts it with back-off without touching the others, and stops all of
// them in reverse order. A component marked Critical ends the group instead.
//
// Invariants: Run is never called twice at the same time for one component;
// a component that panics or that leaves its goroutine by runtime.Goexit is
// an exited component, not a dead process; Stop returns only after every Run
// has returned or the stop context has ended.
//
// Any package may import it. It imports no Kubernetes code.
package component
