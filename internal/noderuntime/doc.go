// Package noderuntime names the container runtimes of a node: how a setting
// registers one, what is known of each, and how the running node is asked to
// add or remove one.
//
// Invariants: of the runtimes of a node exactly one is primary, at least one
// runs containers, and names and endpoints are unique.
//
// Anyone may import it. It imports API types only.
package noderuntime
