// Package plainetcd runs an etcd in the process of a test, on free ports of loopback.
//
// Invariants: it has no certificates, flushes nothing to disk, and ends with the test.
//
// Only tests import it.
package plainetcd
