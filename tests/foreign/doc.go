// Package foreign_test runs a program that was built for another architecture, under
// QEMU's emulation of programs: that it is what it says, carries programs of the same
// architecture, and serves the API.
//
// Invariants: `make test-foreign ARCH=...` is the only way to run it.
//
// Nothing imports it.
package foreign_test
