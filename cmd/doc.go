// Package cmd is the command line of a4s: one file per command.
//
// Invariants: commands turn arguments into a configuration or a request and
// hand it to a function in Modes; nothing heavy is imported here. Mistakes on
// the command line are problem.Input, found by scanning the arguments against
// the flag tables before urfave/cli sees them, which reports them as text
// only. The global variables of urfave/cli are neither read nor set, because
// containerd's packages change them. Nothing here ends the process.
//
// Only main imports it.
package cmd
