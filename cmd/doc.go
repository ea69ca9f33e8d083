// Package cmd is the command line of a4s: one file per command.
//
// Invariants: commands turn arguments into a configuration or a request and
// hand it to a function in Modes; nothing heavy is imported here. Mistakes on
// the command line are problem.Input, found while it is put into the order in which
// urfave/cli reads it (arguments.go, mistakes.go). Commands, flags, what is asked for by
// shells and the templates of help are urfave/cli's; the flags of server and agent are read
// by package config, together with files and the environment. The global variables of
// urfave/cli are not set. Nothing here ends the process.
//
// Only main imports it.
package cmd
