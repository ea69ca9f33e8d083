// Command pause is process 1 of a pod sandbox: it holds the pod's namespaces
// open until it is told to stop, and reaps the orphans that a shared process
// namespace gives it.
//
// Only the payload builder (scripts/payload) builds it, into the sandbox image;
// nothing imports it. It imports only the standard library, to stay small.
package main
