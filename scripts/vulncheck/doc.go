// Command vulncheck looks for known vulnerabilities in programs, by govulncheck
// and Go's vulnerability database, and lets pass what a reviewed file excepts.
//
//	go run ./scripts/vulncheck --exceptions scripts/vulncheck/exceptions.yaml bin/a4s
//
// It fails on a vulnerability whose functions are in a program, unless there is
// an exception that has not run out; what is only in a module, but not in the
// program, is reported and passes. An exception that no program needs fails
// too, so that the file says what is true.
//
// Invariants: without the database nothing counts as checked; --offline-ok
// makes that a warning instead of an error, for machines without a network.
//
// It imports nothing of a4s.
package main
