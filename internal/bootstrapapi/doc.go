// Package bootstrapapi is the contract of the API that runs pods without an
// API server: where it is, what it answers, and how a pod that came through it
// is marked when a node offers it to the API server.
//
// Invariants: only names, paths and a client; what a pod must look like is
// decided where it is accepted, by the node (agent/bootstrap) and once more by
// the server, which believes no node.
//
// agent, server and cmd may import it. It imports API types only.
package bootstrapapi
