// Package ingress is the controller of Ingresses: it decides which space has a host, tells nodes where
// requests go, and writes the addresses of these nodes into the status of Ingresses.
//
// Every server resolves the Ingresses of a space when something in it changed, and tells each node what
// became different (Controller); one of them writes (Leader). The resolver is a pure function. Nothing but
// Ingresses and their classes is watched before there is one of this class.
//
// Invariants: a host is of one space at a time, the one that asked first, or whose Tenant has it in
// spec.hosts; that is written down (claims) before anything is told, so that an Ingress which is older, or
// which was changed, takes no host from another. A node that takes no requests is told nothing, above all
// no private key. What a host, a backend and a certificate are made of is of the same space, and endpoints
// of a tenant are addresses of its living pods. What a tenant writes costs its own rounds: what a space has
// beyond its bounds is left out and said.
//
// Only server, server/addons and server/nodeapi may import it. Of Kubernetes it imports client-go only.
package ingress
