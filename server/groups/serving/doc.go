// Package serving is the storage of a resource on a server of a service group (seed:
// data-partition; design: service-groups, 2.3 and 2.4). The watch cache has what the
// group holds: the system and some tenants. What else is asked for is read from the
// datastore, so every answer is complete, whoever gives it.
//
// Invariants: a list or watch of everything is complete, unless it asks for the part of
// the group (partitionapi.WithPart) or for one of the streams that are complete together
// (partitionapi.WithStream), in which nothing of a move is seen; a read from the cache is
// repeated if its tenant moved meanwhile; an open watch of a tenant that leaves goes on
// with what the datastore says, and nobody but those who ask for the part sees what a move
// puts in or takes out; a list of a stream is what the stream has at the revision of the
// list; streams are not read in the datastore while the cache is filled that will have them.
//
// The storage of the API server imports it.
package serving
