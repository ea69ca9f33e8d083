// Package directory knows which tenants there are, for everything in the
// server that has to ask with every request.
//
// Invariants: a tenant that was created before a question is found by it (what
// the watch has not brought yet is looked up); answers never block on the
// watch once it runs.
//
// Only server may import it.
package directory
