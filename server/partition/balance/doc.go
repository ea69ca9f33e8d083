// Package balance proposes which tenants a service group should own, by how many objects
// they have (seed: data-partition, secondary goal).
//
// A proposal moves the boundary between two neighbours so that both have about the same,
// or empties a group whose servers are to stop. It is a list of configurations in the
// order in which to store them: what grows comes first, so no tenant is without an owner.
//
// Invariants: it changes two configurations at most; tenants that are listed stay where
// they are, unless their group is drained; a difference of less than a fifth is left.
//
// cmd and the wiring of the server import it.
package balance
