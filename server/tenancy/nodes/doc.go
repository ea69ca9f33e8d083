// Package nodes decides which nodes run the pods of a tenant, by spec.scheduling of all
// Tenants: those with the labels of the tenant's own, but for those that another tenant has
// for itself alone. The scheduler asks it for each node (package filter), and the admission
// of the API server when a pod names its node or is bound to one.
//
// Invariants: no field of a pod matters; the system space runs anywhere; a node that two
// tenants have for themselves alone runs pods of neither; what a tenant is told names no
// other one; a change counts as soon as the server hears of it, for pods that have no node.
//
// Only server may import it. It imports nothing of Kubernetes' server.
package nodes
