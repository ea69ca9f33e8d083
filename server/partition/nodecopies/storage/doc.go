// Package storage is what the API server of a tenant partition adds to its storage of
// nodes: copies of nodes keep the UID and the time of creation of their originals, which
// mirror pods, owner references and tokens of the node's pods need.
//
// Invariants: nobody but the importer, and none who impersonates it, chooses the UID of a
// node or sets, changes or removes the label of the resource partition: this label keeps
// a node from the node controllers of its own server, so a kubelet must not have it.
//
// Only server may import it.
package storage
