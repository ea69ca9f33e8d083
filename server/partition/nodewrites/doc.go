// Package nodewrites sends what users change of a node to the resource partition that has
// it: what a tenant partition has is a copy, which the importer would mend.
//
// Invariants: it stands behind authentication, authorization and audit of this server, and
// the other one judges the user again; a service account, which the other partition does
// not know or takes for one of its own, goes there as this partition; copies themselves are
// written by the importer, and by the controller that attaches volumes, whose list is this
// partition's own.
//
// Only server may import it.
package nodewrites
