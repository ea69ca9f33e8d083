// Package owners shows upstream's garbage collector owners that are of one space.
//
// Upstream keeps one graph of all objects by their UIDs. An object of a tenant that
// names an own object, but the UID of something else, so stood in the graph below
// what it does not own, and held up the deletion of that. Here the UIDs of what tenants
// have begin with the tenant, those of the owners that their objects name too, so
// that no object can be linked with one of another space, whatever stands in it.
//
// Invariants: what the collector reads, from informers and by its client, has such
// UIDs, and what it writes has those of the API again; an owner that is of another
// space by its name is left out of the graph, where it neither holds nor is
// followed; objects of the system that name none of a tenant are seen as they are.
//
// Only server/controlplane/controllers may import it.
package owners
