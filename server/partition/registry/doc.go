// Package registry serves Partitions and TenantPlacements, the directory that the home partition keeps, as resources
// of the core group: storage, validation, printer columns and OpenAPI. Every server has them, and those of other
// partitions send requests for them home (package proxy).
//
// Invariants: ranges of partitions do not overlap; what a partition was registered with never changes but for its
// servers and its node ports; one that was removed is recorded before it goes.
//
// Importing it makes the types known to legacyscheme, the scheme of the built-in APIs, once per process and before
// anything reads it. Only server may import it.
package registry
