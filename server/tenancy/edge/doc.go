// Package edge is the HTTP layer in front of the API server that makes a space
// look like a cluster of its own (multi-tenancy seed, "Resource URL Endpoint
// Resolution").
//
// A request is resolved once, where it comes in (request.go): its path, its user,
// its space and its resource are handed on from there. Its path, query and body are
// composed (path.go, space.go, body.go), and the answer is projected back
// (answer.go). Discovery and OpenAPI (nonresource.go) lose the resources that tenants
// cannot have and gain the CRDs of the space (discovery.go, openapi.go).
//
// Invariants: nothing is resolved twice, and no request is served or refused to a
// user that was not resolved; a request of a tenant reaches the API server in
// composite form only; nothing is sent to a tenant that was not projected; requests
// of system users on short paths are not changed, they see the composite view of
// the whole cluster, and only its discovery gains what tenants define. The edge
// resolves, it does not authorize: that is server/tenancy/authz, which sees the
// tenant of the user and that of the request.
//
// Only server may import it.
package edge
