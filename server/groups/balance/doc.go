// Package balance proposes which tenants a service group should own, by their load: how
// many objects they have, how much is written there and how much is sent to their watches
// (seed: data-partition, secondary goal; design: service-groups, 4).
//
// A proposal moves the boundary between two neighbours so that both have about the same,
// or empties a group whose servers are to stop. It is a list of configurations in the
// order in which to store them: what grows comes first, so no tenant is without an owner.
// One of which only a part was stored, because a process ended, is taken up again.
//
// Invariants: it changes two configurations at most; tenants that are listed stay where
// they are, unless their group is drained; a difference of less than a fifth is left;
// nothing is suggested to move to a group without a server that is ready, but for what
// was interrupted; nothing is moved by itself for ten minutes after any change.
//
// cmd and the wiring of the server import it.
package balance
