// Package partial tells people who list everything at one partition that other partitions have
// more: an API server has what is in its partition.
//
// Invariants: answers are as ever but for a warning, which kubectl prints; programs get none,
// which would log it with each list; tenants get none, whose objects are all in one partition.
//
// Only server may import it.
package partial
