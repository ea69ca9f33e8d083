// Package install tests scripts/install.sh: it runs the script against
// directories of the test and a mirror on loopback.
//
// Invariants: no test needs root, the network or a service manager. The PATH
// of the script holds only the tools that it may use and stand-ins for the
// service manager, which note how they were called; that the real ones agree is
// what tests/vm is for. Nothing outside the test's directory changes.
//
// Nothing imports it.
package install
