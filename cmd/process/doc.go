// Package process wires server and agent into one process: it gives the
// commands of cmd what they run, takes the lock of the machine, sets up the log
// and the health monitor, and starts and stops the two halves in order.
//
// Invariants: there is one a4s per machine; the node ends before the API server;
// only main ends the process.
//
// Only main may import it.
package process
