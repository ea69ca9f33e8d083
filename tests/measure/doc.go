// Package measure keeps what rounds of a benchmark measured, compares its sides
// and draws them.
//
// Invariants: a round has a value of every side, taken one after the other, and
// sides are compared by the ratios of their rounds: what changes from round to
// round, as other work on the machine, is not taken for a difference of the
// sides. A result says how sure it is.
//
// Benchmarks import it. It imports the standard library only.
package measure
