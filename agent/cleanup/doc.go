// Package cleanup is `a4s killall`: it stops everything that a4s runs on this
// machine, pods included, and takes back what it changed.
//
// Invariants: only what belongs to the given data and run directory goes; a
// shim, process, mount, rule or file of another container runtime or of
// another a4s is left alone; each step runs whatever became of the others and
// failures are collected; nothing is deleted below a mount that could not be
// unmounted; a second run finds nothing and succeeds.
//
// cmd may import it. It imports no Kubernetes server code.
package cleanup
