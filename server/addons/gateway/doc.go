// Package gateway resolves Gateways, HTTPRoutes, GRPCRoutes and TLSRoutes of the Gateway API: what those of one space
// come to for the proxies of nodes, and what their conditions say. It does no I/O, watches nothing and writes nothing.
//
// What is here as the Gateway API says: listeners HTTP at port 80, HTTPS at port 443, and TLS there that passes
// connections on; the first certificate of a listener that can be used, ReferenceGrants, the matches, filters and
// timeouts that joinapi.IngressPath has. What is not: TLS of TLSRoutes that ends here, other protocols and ports,
// certificates of clients, ListenerSets, default Gateways, regular expressions, mirroring, CORS, external
// authorization, retries and persistent sessions. An object that asks for one of these is refused with a condition. A
// rule that cannot be done is answered with 500, so that no other rule gets its requests.
//
// A GRPCRoute is an HTTPRoute with other matches, whose backends are sent HTTP/2: a method of a service is the path
// "/service/method". A method of any service is not here, as that is no path that begins with anything. Where others
// are answered with 500, it is 503, which clients read as UNAVAILABLE. One listener has routes of one kind for a host,
// the kind of the oldest route, as the Gateway API wants it; a route of the other kind is refused by its parentRef,
// also where further listeners would take it.
//
// A TLSRoute has the connections with TLS for its hosts, which are not opened. HTTPS and TLS have one port, so two
// listeners of one Gateway for the same host conflict, and routes of several Gateways are compared by their age: of
// those that would have the connections for the very same host, one TLSRoute or several other routes have them.
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
