// Package bench holds the benchmarks behind the claims in the documentation.
//
// Invariants: a benchmark measures both sides of its claim in one run and
// reports their ratio; nothing here fails because of a duration or a size.
// `make bench` runs them; they are not part of `make test`.
//
// Nothing imports it.
package bench
