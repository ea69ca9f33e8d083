// Package problem holds the error kinds that decide how a4s reports a failure
// to a person and with which exit code it ends.
//
// Invariants: a problem names what was wrong (flag, file or resource), its
// value and what would be right, and it carries its cause for errors.Is and
// errors.As. Nothing here logs or exits; only main turns a problem into an
// exit code.
//
// Any package may import it. It imports only the standard library.
package problem
