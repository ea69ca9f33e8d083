// Package ownership says which service group owns which tenants, and where the keys of
// their objects lie in the datastore (seed: data-partition, "API Changes").
//
// Invariants: a Table is a function of the configurations alone and never changes, so
// every server that has met the same revision has the same one; each tenant has at most
// one owner; a key of a tenant lies in the ranges of its owner and of no other group,
// and the system's keys lie in the ranges of all.
//
// It knows names and bytes, and imports nothing of Kubernetes' server.
package ownership
