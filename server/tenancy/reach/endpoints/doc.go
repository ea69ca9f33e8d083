// Package endpoints takes an address off the endpoints of a tenant as soon as
// the pod that had it lets go of it: the address comes back, and then it may be
// that of somebody else's pod, which would stand behind this tenant's Services.
//
// The guard of server/tenancy/admission judges what tenants write, once; this judges
// what is stored, whenever a pod, a node, a partition or what is stored changes: one
// that joins makes addresses inside that were outside when they were written. Both
// ask Living and Holds. What upstream's controllers keep up to date they are given a
// moment for; then it is corrected here, too: not all that a tenant writes into it
// makes them look again.
//
// Invariants: nothing outside the cluster is touched, nor the system's own space;
// nothing is, until it is known what is inside; an address is taken off only when the
// API server itself, not a cache, has no pod of the tenant for it.
//
// Only server may import it, and server/tenancy/admission and server/tenancy/reach for the rules.
package endpoints
