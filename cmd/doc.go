// Package cmd is the command line of a4s: one file per command.
//
// Invariants: commands turn arguments into a configuration or a request and
// hand it to a function in Modes; nothing heavy is imported here. Mistakes on
// the command line are problem.Input, made of the typed errors of pflag
// (mistakes.go). Parsing, help and completion are cobra's, but for the flags of
// server and agent, which package config reads together with files and the
// environment. Nothing here ends the process.
//
// Only main imports it.
package cmd
