// Package cable is a TCP connection that tests cut: what is sent meanwhile arrives late or
// never, and neither end is told, as in a network that drops packets.
//
// Invariants: nothing is lost or changed by a cable that is not cut; it ends with the test.
//
// Only tests import it. It imports the standard library only.
package cable
