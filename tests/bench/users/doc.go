// Package users has users of a cluster: spaces with a user each, who make Deployments at a
// pace or as fast as they can, and a watch that sees how long pods take until they run.
//
// Invariants: a space is a tenant, or a namespace with what a tenant has; a pod counts for
// the phase in which it was first seen; who waits for pods waits as long as something
// happens.
//
// Only benchmarks import it.
package users
