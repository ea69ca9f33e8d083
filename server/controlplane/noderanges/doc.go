// Package noderanges knows which ranges of pod addresses a node can have: those that the
// controller which gives them would take. One that it would not ends all controllers when they
// start, and again each time.
//
// Invariants: a range lies in that of the cluster of the same place in the list, begins where
// it says, and has the size that all have.
//
// Only server may import it.
package noderanges
