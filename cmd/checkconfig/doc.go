// Package checkconfig looks for what a machine lacks to run a4s.
//
// Invariants: it changes nothing; every result that is not a pass says what to
// do about it; a failure means that a4s cannot work with its defaults, a
// warning that it works with less.
//
// cmd may import it. It imports only the standard library and golang.org/x/sys.
package checkconfig
