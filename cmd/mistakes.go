package cmd

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

// unknownCommand says which subcommand was probably meant. App.Suggest of urfave/cli names
// the nearest one however far that is; what is near is decided as for keys of files.
func unknownCommand(parent *cli.Command, name string) error {
	in := &problem.Input{Source: fmt.Sprintf("command %q", name), Err: config.ErrUnknownCommand,
		Want: fmt.Sprintf("one that %q lists", parent.HelpName+" --help")}
	var names []string
	for _, c := range parent.Subcommands {
		names = append(names, c.Names()...)
	}
	if near := config.Nearest(name, names); near != "" {
		in.Want = fmt.Sprintf("%q, or %s", near, in.Want)
	}
	return in
}

// unknownFlag says which flag was probably meant.
func unknownFlag(c *cli.Command, name string) error {
	in := &problem.Input{Source: dashes(name), Err: config.ErrUnknownFlag,
		Want: fmt.Sprintf("one that %q lists", c.HelpName+" --help")}
	var names []string
	for _, f := range c.Flags {
		names = append(names, f.Names()...)
	}
	if near := config.Nearest(name, names); near != "" {
		in.Want = dashes(near) + ", or " + in.Want
	}
	return in
}

// noValue says that a flag is the last word, under the name that was written.
func noValue(f cli.Flag, name string) error {
	return &problem.Input{Source: dashes(name), Err: config.ErrNoValue, Want: kindOf(f).Want() + " after it"}
}

func badValue(f cli.Flag, value string) error {
	return &problem.Input{Source: dashes(f.Names()[0]), Value: value, Want: kindOf(f).Want()}
}

func malformed(written string) error {
	return &problem.Input{Source: written, Want: "--name or --name=value"}
}

func dashes(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
