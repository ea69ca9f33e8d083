// Package kinds is the table that says of every built-in resource whether it
// belongs to tenants, to the system alone, or to the system for all to read.
//
// Invariants: pure data; a resource of a built-in API that is not in the table
// is a failing test, never a guess; what is not in the table at run time is a
// custom resource.
//
// Everything in server may import it, it imports nothing of Kubernetes.
package kinds
