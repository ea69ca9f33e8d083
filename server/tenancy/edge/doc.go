// Package edge is the HTTP layer in front of the API server that makes a space
// look like a cluster of its own (multi-tenancy seed, "Resource URL Endpoint
// Resolution").
//
// A request goes through the edge in steps, which serve.go lists:
//
//	request.go    what it says: its path, tenant, resource or document
//	selectors.go  its query is not too long
//	queue.go      its turn, in the queue of whoever it probably is
//	resolve.go    whose it is, and which space it is addressed to
//	charge.go     the turn is one of its tenant
//	members.go    a member of several tenants has said as the user of which they ask
//	partition.go  it is for this partition, or goes to another
//	part.go       the part of a service group that a user of the system asks for
//	              (the ways of users of the system part here: system.go)
//	selectors.go  its selectors are not too much work
//	turns.go      its seat, which others have while it waits for its client
//	inflight.go   it ends with its tenant
//	cordon.go     it only reads, if its tenant is cordoned
//	space.go      its space is there
//	kind.go       what its resource is in that space, and how the space sees objects
//	compose.go    its path and its selectors have composite names
//	              (discovery and OpenAPI are answered here: nonresource.go)
//	body.go       its body has composite names, once it is read
//	handon.go     the chain behind the edge serves it
//	answer.go     the answer is projected back while it is written
//	finish.go     the rest of the answer, and what was projected as a whole
//
// It is resolved once, where it comes in, and handed on as one value that later steps
// read. Discovery and OpenAPI lose the resources that tenants cannot have and gain the
// CRDs of the space (discovery.go, openapi.go).
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
