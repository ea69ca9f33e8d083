// Package registry serves DataPartitionConfigs as a resource of the core group: storage, validation, printer columns
// and OpenAPI (seed: data-partition, "API Changes"). Every server has it, also one without a service group: with it
// administrators say which groups there are.
//
// Invariants: a range has its start before its end; a service group has one configuration, and a tenant is listed by
// one. Two servers that are asked at the same moment may break the latter, and then the older configuration counts
// (package ownership).
//
// Importing it makes the type known to legacyscheme, the scheme of the built-in APIs, once per process and before
// anything reads it. Only server may import it.
package registry
