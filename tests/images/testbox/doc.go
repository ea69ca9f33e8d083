// Command testbox is the program inside the pods of the end-to-end tests: an
// HTTP server that says what it sees of its pod, and the few commands that a
// test runs in one.
//
// Invariants: it is static, needs no shell and no file besides itself, ends
// at once on SIGTERM, and prints results on standard output and errors on
// standard error, so that a test can compare either.
//
// It imports only the standard library, and nothing imports it.
package main
