// Package apiregistry has what the registries of the kinds that a4s adds to the core group
// have in common: their storage, the strategy of their writes, and the tables that people
// read.
//
// Invariants: the kinds are cluster-scoped, and an update makes no object; an object is
// checked whole at every write, and beside what it was at an update.
//
// The registries of our kinds import it.
package apiregistry
