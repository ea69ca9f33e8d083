// Package tenancy holds the benchmarks of tenants: what the API server of a4s
// costs beside the one of upstream, and what a tenant costs.
//
// Every server runs in a process and a network namespace of its own, the test
// binary under another name; the benchmarks talk to all of them in turns.
//
// Invariants: as of package bench. They need root.
//
// Nothing imports it.
package tenancy
