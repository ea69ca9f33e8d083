// Package rewrite changes objects that others write, too: it reads, changes and writes back, and does so again when
// somebody wrote between. A test that writes back what it read earlier fails whenever a controller is quicker.
//
// Invariants: any other error ends it, and nothing is written without what it was changed from.
//
// Only tests may import it.
package rewrite
