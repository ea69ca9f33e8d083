// Package nodechild runs the node of a server as a child process of the server:
// what ends that process, as a panic in a library does, leaves the API up.
//
// Invariants: the child lives no longer than its server, however that ends; it
// has no secret on its command line or in its environment; it is stopped before
// the API server; pods survive its end. What it knows of itself is asked for at its
// socket.
//
// main imports it, for both sides. It imports no Kubernetes server code.
package nodechild
