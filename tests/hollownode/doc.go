// Package hollownode makes nodes that have nothing behind them, for tests: they are ready, and
// stay so for as long as their leases are renewed.
//
// Invariants: it starts nothing; whoever makes a node says to which servers and for how long
// its lease is renewed. Benchmarks have nodes that do more (tests/bench/hollow).
//
// Only tests may import it.
package hollownode
