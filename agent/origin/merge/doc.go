// Package merge shows collections of several tenant partitions as one: the pods of
// the node, Services, EndpointSlices and Namespaces by their qualified namespaces,
// RuntimeClasses and CSIDrivers by name, where the home partition comes first.
//
// One reflector for each partition and collection fills a set, which answers lists
// and watches from memory. Its resource versions are its own: they count the changes
// of this process, of which the last 1,024 are kept; who knows less lists again.
//
// What each partition said of the collections is on disk, too. When a partition
// cannot be reached at the start of this process, that is shown in its place. A
// kubelet ends every pod that is not in its list, so without a partition's pods there
// is no list, except for a partition that joined since: it has no pods here.
//
// Invariants: a list is the union of what the partitions have; an object that is
// shown is never changed; versions rise, also from one process to the next, and are
// recognized (IsLocal), so that none reaches a server; a partition that cannot be
// reached keeps what it said last, and stops no other.
//
// agent/origin/route may import it. It imports no Kubernetes server code.
package merge
