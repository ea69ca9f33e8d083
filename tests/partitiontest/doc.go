// Package partitiontest has a small API server that stands for a tenant partition in
// the tests of agent/origin: it lists and watches what a test puts into it, records
// what it is asked, and hangs or goes away when it is told to.
//
// Tests import it.
package partitiontest
