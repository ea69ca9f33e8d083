// Package sealing keeps what only the servers of a cluster may read in places
// that others see, such as the datastore.
//
// Invariant: what was not sealed with the same secret, purpose and label does
// not open; it is never returned half.
//
// Everybody may import it. It imports the standard library only.
package sealing
