// Package rootsocket opens the unix sockets that a node serves its
// administrator and its kubelet on, connects to them, and finds out which user
// has connected.
//
// Invariants: the socket is for root alone, and replaces one that a killed
// process left behind. The mode of a socket can be changed, and somebody may
// connect before it is set, so a server for the administrator checks PeerUID as
// well. It is what the kernel reports, not what the peer sends.
//
// Anyone may import it.
package rootsocket
