// Package nodecopies keeps copies of the Nodes and CSINodes of resource partitions in the
// API of a tenant partition, so that all that upstream does with nodes works there, also
// while a resource partition is down.
//
// A copy has the labels, annotations, spec and status of its original, its UID and its
// time of creation (package storage lets nobody else choose those), and the label that
// names its resource partition. status.volumesAttached is the tenant partition's own:
// its attach-detach controller writes it, and the copy keeps it. status.volumesInUse, what
// nodes tell that controller, is copied as all of the status is.
//
// Invariants:
//   - a copy is written only if something else than a heartbeat differs;
//   - a copy is deleted only after its resource partition said that the node is not there;
//     one that is down, or that is not known any more, changes nothing;
//   - a node whose name another resource partition, or this server itself, has is left
//     alone and reported;
//   - a node with another UID is another node: its copy is deleted and made anew.
//
// Only server may import it. It imports nothing of Kubernetes' server.
package nodecopies
