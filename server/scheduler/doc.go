// Package scheduler runs upstream's scheduler in this process.
//
// Invariants: leader election is off while there is one server, because
// upstream ends its process when it loses a lease; plugins of a4s are passed
// as upstream registry options, never patched in; no port is opened.
//
// Only server may import it.
package scheduler
