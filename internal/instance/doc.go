// Package instance makes sure that one a4s runs on a machine, and lets
// `a4s killall` find it.
//
// Invariants: the lock is held by the open file, so it ends with the process
// however that ends; the file's content is only a hint for people and for
// killall, which verifies it.
//
// main and agent/cleanup may import it.
package instance
