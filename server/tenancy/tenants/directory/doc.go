// Package directory knows which tenants there are, for everything in the
// server that has to ask with every request. It keeps those whose space is made or is
// being emptied. A dormant one is looked up when somebody asks for it, so a
// million of them cost no memory here. It keeps all templates of tenants, too.
//
// Invariants: a tenant that was created before a question is found by it (what
// the watch does not bring, or has not brought yet, is looked up); answers about
// tenants that are kept never block on the watch once it runs.
//
// Only server may import it.
package directory
