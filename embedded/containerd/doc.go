// Package containerd is containerd's daemon as the main function of a child
// process: the a4s binary started under the name "containerd".
//
// Invariants: Main takes over signal handling, the standard logger and the
// whole plugin registry, so it runs alone in its process.
//
// Only main imports it.
package containerd
