// Package groupwatch makes one watch of everything out of the streams of service groups, as
// a transport for clients that see all tenants: controllers, scheduler, nodes (seed:
// data-partition, "Affected Components"; design: service-groups, 2.6).
//
// Each server caches the tenants of its group. A watch of everything is therefore asked
// of the servers of all groups: one stream of each group that owns a tenant, and one of the
// rest. A stream that breaks is opened again where it was, at another server if need be;
// groups that come and go are followed. Reads of one tenant go to a server of the group
// that owns it. A list of everything is made of lists of the streams, all at one revision, at
// which it is known who owned what: a watch goes on from there. A watch that begins with
// what there is (sendInitialEvents) is refused: clients list then. All else passes: what one
// server answers is complete, too, and read in the datastore.
// Before there are groups a watch is one of a server, and gives way when they come.
//
// A watch is a machine, a value without goroutines: where its streams are, and what its client was
// shown. merge does what it says, and sessions keep it for a client that comes back.
//
// Invariants: each event is delivered once, and those of one object in order. While its tenant
// moves, the stream of the new owner can be faster: then what is older of the object is left out,
// its deletion before it was made again among that, as for a client that lists. Between
// objects of different groups there is no order, so the last revision that a client has seen does
// not say where all streams are: that is remembered, and a client that returns
// with a revision that cannot be placed gets 410 and begins anew; a bookmark has a
// revision that all streams have reached, and no event has it; a list is what the datastore has at its revision,
// whole or not at all. Bytes of objects pass unchanged.
//
// server's and agent's wiring may import it. Of Kubernetes' server it imports
// what reads the paths of requests.
package groupwatch
