// Package registry serves NodeAllocations as a resource of the core group: storage,
// validation, printer columns and OpenAPI.
//
// Invariants: a partition has at most one share of a node; who comes as a partition
// changes its own share only, and takes none but itself from the awaited.
//
// Importing it makes the types known to legacyscheme, the scheme of the built-in APIs,
// once per process and before anything reads it. Only server may import it.
package registry
