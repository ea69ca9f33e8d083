// Package proxy is the data plane of the Ingress controller of a node: it takes requests of clients
// of all tenants, and hands each to an endpoint of the Service that its host and path name. It runs
// in a process of its own without privileges, and knows only what it reads from its parent: lines of
// joinapi.IngressLine.
//
// Invariants: a batch of lines shows as a whole or not at all; a request that began goes on whatever
// batches come after it. A host has only backends and certificates of its own tenant, whatever the
// lines say. Connections to backends are of one tenant each. What a tenant can hold is bounded by
// tenant, what a client can hold is bounded by client, and both are bounded in sum. Nothing that a
// client or a backend says is believed about who the client is, or written to the log above Debug. A
// request that has its answer does not wait long for its body.
//
// Filters of routes change no header that belongs to a connection, that frames a body, or by which
// the proxy says who asks. What they set or remove comes neither by a trailer nor before the answer.
// A redirect always names scheme and host. A prefix is replaced in the path by which the route was
// found, so dots lead nowhere else; nor do they without a change, as what is forwarded has none. A
// route can shorten what time the node allows, but not add to it.
//
// Connections with TLS for some hosts are passed on as they are: crypto/tls reads the first message
// of the client, and what was read goes to the backend before the rest. They count as a request
// each, as upgraded connections do. Requests that come by connections for other hosts do not reach
// such a host. While no host is like that nothing is kept of what clients say.
//
// Only agent/ingress and the wiring of main may import it. It imports no Kubernetes code.
package proxy
