// Package server wires server mode: datastore, PKI, tokens, supervisor, API
// server, controllers, scheduler and manifests. It is the one place where the
// structs of server/* meet.
//
// Invariants: everything that can be refused (settings, damaged files, taken
// ports, a full disk) is refused before anything is written or started; parts are
// started in the order of their dependencies and stopped in reverse, so that
// the datastore closes after the last write.
//
// main and tests/integration may import it.
package server
