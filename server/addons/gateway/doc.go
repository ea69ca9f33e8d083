// Package gateway resolves Gateways, HTTPRoutes and GRPCRoutes of the Gateway API: what those of one space come to for
// the proxies of nodes, and what their conditions say. It does no I/O, watches nothing and writes nothing.
//
// What is here as the Gateway API says: listeners HTTP at port 80 and HTTPS at port 443, the first certificate of a
// listener that can be used, ReferenceGrants, the matches, filters and timeouts that joinapi.IngressPath has. What
// is not: other protocols and ports, certificates of clients, ListenerSets, default Gateways, regular expressions,
// mirroring, CORS, external authorization, retries and persistent sessions. An object that asks for one of these is
// refused with a condition. A rule that cannot be done is answered with 500, so that no other rule gets its requests.
//
// A GRPCRoute is an HTTPRoute with other matches, whose backends are sent HTTP/2: a method of a service is the path
// "/service/method". A method of any service is not here, as that is no path that begins with anything. Where others
// are answered with 500, it is 503, which clients read as UNAVAILABLE. One listener has routes of one kind for a host,
// the kind of the oldest route, as the Gateway API wants it; a route of the other kind is refused by its parentRef,
// also where further listeners would take it.
//
// What differs from the Gateway API: all Gateways share the addresses of the nodes, so routes of two Gateways for the
// same host and match conflict, and the older route has it; spec.addresses only says which of the addresses the
// status has. Listeners of one Gateway are isolated by their hostnames while routes are attached to them; requests
// for a listener without routes go to the next wider host.
//
// Invariants: everything is a function of the View. No reference leaves the space: what objects say of namespaces is
// native, and is composed with the tenant of the View. No field is trusted to be valid: objects may be of a CRD that
// a tenant wrote. The work and what comes of it are bounded; what is beyond is left out and said. Messages are short,
// and name nothing of another space.
//
// Only server/addons/ingress may import it. Of Kubernetes it imports types only, and no client.
package gateway
