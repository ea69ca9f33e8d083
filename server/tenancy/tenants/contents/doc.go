// Package contents is what the datastore has of a tenant, as those who count
// it and those who delete it speak of it.
//
// Invariants: names are composite; an answer is as new as the datastore, and
// an empty one means that there is no key of the tenant.
//
// Only server may import it. It imports nothing of Kubernetes' server.
package contents
