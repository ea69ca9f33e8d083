// Package problem holds the error kinds that decide how a4s reports a failure
// to a person and with which exit code it ends.
//
// Invariants: a problem names what was wrong (flag, file or resource), its
// value and what would be right, and it carries its cause for errors.Is and
// errors.As. Nothing here logs or exits; only main turns a problem into an
// exit code.
//
// It also shows what others have written (names, messages, errors of servers) in a
// form of which a terminal obeys nothing: Show in what a4s' commands print, Line in
// what a4s writes into objects.
//
// Any package may import it. It imports only the standard library.
package problem
