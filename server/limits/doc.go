// Package limits counts what tenants use of the API, bounds it where the spec
// of a Tenant says so, and lets metrics and audit events name the tenant.
//
//	requestsInFlight  at the edge: 429 with Retry-After (limits.go)
//	namespaces        in the storage, when something is created: 403
//	objects           (storage.go, counter.go, keys.go)
//
// It also tells what keys the datastore has of a tenant (contents.go): whoever
// empties a space asks it instead of every resource of the API.
//
// Invariants: a limit is read from the Tenant at every use, so a change of it
// works at once. A tenant without a limit costs a look at its Tenant and
// nothing else; one with a limit has a counter that is kept up by this server
// and, because there can be other servers, counted again in the datastore
// while it is used. On one server a limit is exact. Users of the system are
// never refused at the edge and their requests are not counted as a tenant's;
// what they or the controllers create in a tenant's space is. The number of
// tenants that metrics name is bounded.
//
// Only server may import it.
package limits
