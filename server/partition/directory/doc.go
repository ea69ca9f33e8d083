// Package directory is what a server knows of the partitions of its cluster and of the
// tenants that they have: a copy of what the home partition keeps.
//
// Invariants: what was known last is kept on disk (in the home partition the partitions only)
// and is used until home can be asked; home's absence takes nothing from it, and neither does
// a list of home that lacks something: a partition goes by the record of its removal; whoever
// asks for a tenant that is not known gets an answer from home, or an error.
//
// Only server may import it.
package directory
