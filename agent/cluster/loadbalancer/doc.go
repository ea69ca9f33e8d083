// Package loadbalancer is how a node reaches its servers: a TCP load balancer
// on a loopback address, to which all clients on the node connect as if it
// were the one server of the cluster.
//
// Servers are those that the endpoints of the API name, and those that the
// node was configured with as a fallback. The list is kept on disk, so that a
// node starts although the server that it once joined is gone for good.
//
// The node of a server reaches that one without a balancer; Others tell it where the servers
// of other service groups are.
//
// A Dialer is the same for the servers of another partition, for clients of this process: it
// has no listener and keeps nothing on disk.
//
// Invariants: TLS goes through from client to server, so nothing here is
// trusted with more than bytes; a server counts as ready only if it proves to
// be of this cluster; connections are taken from a server that does not answer
// or left the list only while another one is ready; nothing is asked more often
// than once in half a second.
//
// agent may import it, and agent/cluster/join for what is kept on disk. Of Kubernetes
// it imports client-go only.
package loadbalancer
