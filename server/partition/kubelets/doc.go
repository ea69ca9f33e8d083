// Package kubelets lets an API server of a partition other than home ask kubelets for its own
// pods: these know pods of its system space by a qualified namespace, since the home partition
// has the plain names (see internal/space). And it lets one that is no node connect to pods
// through them. And it asks one whether it is there.
//
// Invariants: what users see is as ever; pods of tenants keep their names, and nothing is
// changed in the home partition; a connection ends at the pod that it is for, by its UID.
//
// Only server may import it.
package kubelets
