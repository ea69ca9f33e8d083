// Package rootsocket opens the unix sockets that a node serves its
// administrator and its kubelet on, and connects to them.
//
// Invariant: the socket is for root alone; one that a killed process left
// behind is replaced. Who connects before its mode is set is for the server to
// tell, with package peercred.
//
// Anyone may import it.
package rootsocket
