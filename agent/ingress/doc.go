// Package ingress takes requests for Ingresses at ports 80 and 443 of this node, by a child process without
// privileges that package proxy serves them in.
//
// It follows what servers tell, hands it to the child, and again to the next one when that ends. The child
// runs, and the ports are taken, only while there is a host: a node without Ingresses is as one without this
// package.
//
// Invariants: the listeners are this process', so clients wait while a child is replaced that ran for a
// while; the child is nobody's, knows only what it is told, and ends when this process does; what was told
// last stays in effect while no server answers; hosts are of one partition at a time.
//
// The wiring of agent and main's may import it. Of Kubernetes it imports client-go only.
package ingress
