// Package reconcile does what one HelmChart says, once: it reads the HelmChart and what it refers to, makes, upgrades
// or uninstalls the release, and says how that went.
//
// Invariants:
//   - It reaches one space, by the clients that it is given, and has their rights.
//   - What is to be done follows from the HelmChart and from the labels of the release alone: whoever takes over, and
//     a server that was killed and starts again, goes on from there.
//   - It keeps nothing from one time to the next.
//   - It does what charts, values and indexes of repositories say, and bounds neither time nor memory: those of a
//     tenant are reconciled in a process of their own (server/addons/charts/confined).
//
// Only server/addons/charts may import it.
package reconcile
