// Package nodeaddr chooses the addresses of a node and the interface for
// traffic between nodes.
//
// Invariants: an address that the user names must exist on this machine; what
// was chosen comes with the reason, for the log; addresses of virtual links
// (bridges, tunnels, veths) are never chosen by themselves.
//
// server and agent may import it. It imports no Kubernetes code.
package nodeaddr
