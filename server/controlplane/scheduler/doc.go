// Package scheduler runs upstream's scheduler in this process.
//
// Invariants: upstream's leader election is off, because upstream ends its
// process when it loses a lease, and server/cluster/election takes its place; plugins of a4s are
// registered and enabled in every profile, also in those of a configuration
// file, never patched in; no port is opened.
//
// Only server may import it.
package scheduler
