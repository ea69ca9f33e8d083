// Package servicelb gives Services of type LoadBalancer the addresses of nodes.
// Nothing runs on nodes for it: kube-proxy passes on what comes to an address
// in the status of a Service, from wherever it comes.
//
// Upstream's service controller keeps finalizer and events; the balancer below
// it decides in one place, allocate, over all Services at once, so that it says
// the same whoever asks, and a loop writes what changes with nodes, endpoints
// and other Services.
//
// Invariants: a node is for the Services of one partition; a port of a node has one Service at
// most, and the one that has it keeps it; a port that nodes need for themselves has none (Rules); nobody
// learns of a Service in another tenant's space.
//
// Only server may import it, and server/tenancy/admission for the Rules.
package servicelb
