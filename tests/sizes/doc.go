// Package sizes says how often tests do something, or with how many: a few in make test, and as
// many as a variable of the environment says in make test-long and by hand.
//
// Tests of any package may import it. It imports the standard library only.
package sizes
