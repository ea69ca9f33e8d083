// Package turns is the order of the scheduler's queue: tenants take turns. Upstream takes
// pods by priority and then by time, so a pod waits behind every pod of another tenant that
// was made before it, and behind all that an event wakes again.
//
// Each pod that waits has a start tag, as in start-time fair queueing (Goyal, Vin and Cheng,
// 1996): one more than the last tag of its tenant, or than the tag of the pod that was
// scheduled last, whichever is more. The least tag is next. So a pod that comes to a long
// queue waits for at most one pod of each other tenant, tenants that all have pods waiting have
// one scheduled each in a round, and one that is alone has its pods in the order in which they
// came.
//
// Invariants: priority comes first, as upstream has it; a tag does not change while its pod
// waits, or the heap of the queue would not be in order; what is kept of a pod goes when it is
// scheduled or deleted, and what is kept of a tenant when it has no turn ahead of the others.
//
// The scheduler alone imports it.
package turns
