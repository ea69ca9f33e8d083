// Package crilog writes container logs in the format that the kubelet reads:
// one line each of time, stream, F (full) or P (partial), and text.
//
// Invariants: lines of different streams never mix; Reopen loses no line: what
// was written before it is in the old file and what comes after in the new.
//
// agent/vm may import it. It imports only the standard library.
package crilog
