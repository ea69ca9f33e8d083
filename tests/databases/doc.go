// Package databases starts database servers for tests, from the packages of
// Debian that scripts/install-deps.sh installs, or as libraries.
//
// Invariants: what it starts ends with the test, keeps its data in a directory
// of the test and listens on a unix socket or on loopback only. No service of
// the system is started or used.
//
// Only tests may import it.
package databases
