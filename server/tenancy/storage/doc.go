// Package storage gives every resource of the API server the stored keys of
// the multi-tenancy seed ("ETCD Key Paths") and confines requests to the space
// that they are addressed to.
//
// Above it upstream works with composite names; below it, in the watch cache
// and in etcd, keys are <resource>/<tenant>/<namespace>/<name> for tenants and
// as plain Kubernetes has them for the system.
//
// Invariants: the mapping is a function of the key alone; a request that is
// addressed to one space (space.FromContext) reads that space, and writes
// nothing outside it; where the prefix of a space is ambiguous, objects are
// distinguished by the tenant that their own name says. The label space.Label is
// set here and nowhere else.
//
// Only the wiring of the API server imports it.
package storage
