// Package architecture checks the rules that hold the code base together: who
// may import whom, how packages are named and documented, and what no package
// may do. Each rule says why it is there, so that a failure explains itself.
//
// It has tests only; nothing imports it.
package architecture
