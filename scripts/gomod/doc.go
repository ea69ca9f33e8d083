// Package gomod reads the go.mod files of the sources by the go command, for the
// tools that list and raise what a4s is made of.
//
// Invariants: it changes nothing. scripts/bump and scripts/newest import it.
package gomod
