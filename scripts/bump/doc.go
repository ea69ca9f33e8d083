// Command bump raises the Kubernetes that a4s is made of, in every go.mod of the
// sources: Kubernetes itself, the modules that are released with it, and the pins
// of what it is released and tested with, which it reads from Kubernetes' own
// go.mod. Then it tidies the modules, and builds a4s and its tests.
//
// Invariants: it changes go.mod and go.sum only, by the go command, and nothing
// unless every go.mod could be read and the version is there. Parts with
// releases of their own are raised by naming them. Nobody imports it.
package main
