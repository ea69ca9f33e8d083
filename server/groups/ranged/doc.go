// Package ranged is an etcd client that lists and watches only the tenants that the
// servers of a service group hold (seed: data-partition, "Affected Components"; design:
// service-groups, 2.1 and 2.2). Upstream's storage and watch cache run on it unchanged.
//
// A list of a resource reads the ranges that the DataPartitionConfigs of its revision
// give. A watch of a resource is several watches, merged in the order of revisions, with
// one of the DataPartitionConfigs among them: a change at revision R is met in order, so
// every server changes over at exactly R, for every resource. At R the client reads the
// departing and the arriving tenants as of R, and feeds a deletion or a put of each of
// their objects with the revision R; from R on it watches the new ranges. Who watches is
// not closed, and lists nothing again.
//
// Invariants: events come in the order of revisions; of a tenant's events the old owner
// sees those up to R and the new one those after; keys of the system are in the ranges
// of every group; reads of one key, writes and all other prefixes pass as they are. What
// cannot be put in completely, or comes out of order, ends the watch as if its revision
// were compacted, so that the cache lists again.
//
// The storage of the API server imports it.
package ranged
