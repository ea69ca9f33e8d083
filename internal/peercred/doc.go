// Package peercred tells which user is behind a connection of a unix socket.
// The mode of a socket says who may connect; it can be changed, and descriptors
// can be handed on, so those who serve the machine's administrator ask as well.
//
// Invariant: the kernel says it, nothing that the other side sends.
//
// Anyone may import it.
package peercred
