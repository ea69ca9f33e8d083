// Package references is the reference table: which field of which kind of the API
// names something else, and what.
//
// rows.go has the fields, one row each; reviewed.go has those that look like a
// reference and are none, with the reason. TestEveryReferenceIsDecided
// (server/tenancy/wire) fails for a field that is in neither.
//
// Whoever translates the names in objects reads this table: server/tenancy/wire between
// the native and the composite form, agent/origin/qualify between a partition and the
// nodes that it shares with others.
//
// Invariants: it is data, and imports nothing; a field is in the table once, for all
// versions of its kind.
//
// These two, their tests and scripts/gendocs may import it.
package references
