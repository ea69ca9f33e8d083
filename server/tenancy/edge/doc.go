// Package tenancy is the edge: the HTTP layer in front of the API server that
// makes a space look like a cluster of its own (multi-tenancy seed, "Resource
// URL Endpoint Resolution").
//
// A request is resolved to a space (resolve.go), its path, query and body are
// composed (path.go, request.go, body.go), and the answer is projected back (answer.go).
// Discovery and OpenAPI (documents.go) lose what tenants cannot have and gain
// what the space defines itself (discovery.go, openapi.go).
//
// Invariants: a request of a tenant reaches what lies behind in composite form
// only; nothing leaves towards a tenant that was not projected; requests of
// system users on short paths are not touched, they see the composite view of
// the whole cluster; only its discovery gains what tenants define. The edge
// resolves, it does not authorize: that is server/tenancy/authz, which sees the tenant
// of the user and that of the request.
//
// Only server may import it.
package edge
