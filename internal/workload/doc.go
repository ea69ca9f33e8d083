// Package workload names the types of workload that a node can run, and tells
// which one a pod is.
//
// Invariants: a pod has exactly one type; scheduler, pod source and runtimes
// ask this package and so cannot disagree; an unknown type is an error, never
// a default.
//
// Anyone may import it. It imports API types only.
package workload
