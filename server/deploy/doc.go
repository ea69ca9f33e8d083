// Package deploy applies the carried manifests to the API at start.
//
// Invariants: objects are applied server-side under field manager "a4s", so
// that fields a user has taken over are reported and not fought over at every
// start; applying is repeated with back-off until everything is there.
//
// Only server may import it.
package deploy
