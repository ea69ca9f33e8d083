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
	var names []string
	for _, f := range c.VisibleFlags() {
		names = append(names, f.Names()...)
	}
	return config.UnknownFlag(c.HelpName, names, name, config.Dashed(name))
}

// noValue says that a flag is the last word, under the name that was written.
func noValue(f cli.Flag, name string) error {
	return &problem.Input{Source: config.Dashed(name), Err: config.ErrNoValue, Want: kindOf(f).Want() + " after it"}
}

func badValue(f cli.Flag, value string) error {
	return &problem.Input{Source: config.Dashed(f.Names()[0]), Value: value, Want: kindOf(f).Want()}
}

func malformed(written string) error {
	return &problem.Input{Source: written, Want: "--name or --name=value"}
}
