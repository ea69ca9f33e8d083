// Package heap collects garbage and returns memory where Go would wait: when a server
// becomes idle, and while tenants are made (docs/developing/adr/0012-memory.md).
//
// Invariants: nothing is collected for a request, and nothing if the operator set
// GOGC.
//
// server and server/tenancy may import it.
package heap
