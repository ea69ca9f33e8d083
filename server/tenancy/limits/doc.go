// Package limits counts what tenants use of the API, bounds it where the spec
// of a Tenant says so, and lets metrics and audit events name the tenant.
//
//	requestsInFlight  at the edge: 429 with Retry-After (limits.go)
//	watches           there, too
//	all others        in the storage, when something is written: 403
//	                  (storage.go, write.go)
//	eventsPerSecond   there, too: 429 (rates.go)
//
// What is used stands in a accounting (accounting.go), which follows the datastore
// (follow.go) and is told by this server's writes, so that a limit is exact on
// one server. What an object costs is in charges.go. Names of quotas are counted of
// those tenants only that have such limits (quota.go): what there is already is read when
// they are asked for at first (recount.go).
//
// It also says what keys the datastore has of a tenant (contents.go): whoever
// empties a space asks it instead of every resource of the API.
//
// Invariants: a limit is read from the Tenant at every use, so a change of it
// works at once. What is deleted, or becomes smaller, is never refused. Users of
// the system are never refused at the edge and their requests are not counted as
// a tenant's; what they or the controllers create in a tenant's space is. The
// number of tenants that metrics name is bounded.
//
// Only server may import it.
package limits
