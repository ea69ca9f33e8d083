// Package containerd is containerd's daemon as the main function of a child
// process: the a4s binary started under the name "containerd".
//
// Invariants: Main takes over signal handling, the standard logger and the
// whole plugin registry, so it runs alone in its process. Importing this
// package changes package variables of urfave/cli (containerd's init does);
// cmd sets them again for a4s' own commands.
//
// Only main imports it.
package containerd
