// Package serverstream follows what a server tells its nodes in lines of JSON:
// it connects with the node's credential, and again whenever the stream ends,
// fails, or is silent for longer than it may be.
//
// Invariants: a Reader sees the lines of one connection in order, and no line
// of another one in between; a server that restarts is no news, one that stays
// away is one warning.
//
// Packages of agent may import it. Of Kubernetes it imports client-go only.
package serverstream
