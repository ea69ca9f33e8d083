// Package checks finds out what is wrong between the partitions of a cluster, for `a4s
// doctor`: who does not answer, whose clock or version is another one, which ranges collide.
//
// Invariants: a check asks every server once and waits for a few seconds at most; what it
// cannot find out is no problem of another kind.
//
// Only server may import it.
package checks
