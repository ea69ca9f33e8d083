package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

// subcommand refuses what is no subcommand of a group.
func subcommand(c *cobra.Command, args []string) error {
	if len(args) == 0 || args[0] == "help" {
		return nil
	}
	return unknownCommand(c, args[0])
}

func unknownCommand(parent *cobra.Command, name string) error {
	in := &problem.Input{Source: fmt.Sprintf("command %q", name), Err: config.ErrUnknownCommand,
		Want: fmt.Sprintf("one that %q lists", parent.CommandPath()+" --help")}
	var names []string
	for _, c := range parent.Commands() {
		names = append(append(names, c.Name()), c.Aliases...)
	}
	if near := config.Nearest(name, names); near != "" {
		in.Want = fmt.Sprintf("%q, or %s", near, in.Want)
	}
	return in
}

// helpOf prints the help of a group, or with "help" as the first argument that of
// the command below it which the others name.
func helpOf(c *cobra.Command, args []string) error {
	for _, name := range args {
		if name == "help" {
			continue
		}
		below, _, err := c.Find([]string{name})
		if err != nil || below == c {
			return unknownCommand(c, name)
		}
		c = below
	}
	return c.Help()
}

// flagMistake says what is wrong with the flags of a command, and what would be
// right.
func flagMistake(c *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		bad     *pflag.InvalidValueError
		syntax  *pflag.InvalidSyntaxError
	)
	switch {
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		in := &problem.Input{Source: dashes(name), Err: config.ErrUnknownFlag,
			Want: fmt.Sprintf("one that %q lists", c.CommandPath()+" --help")}
		if near := config.Nearest(name, names); near != "" {
			in.Want = dashes(near) + ", or " + in.Want
		}
		return in
	case errors.As(err, &missing):
		return &problem.Input{Source: dashes(missing.GetSpecifiedName()), Err: config.ErrNoValue,
			Want: kindOf(missing.GetFlag()).Want() + " after it"}
	case errors.As(err, &bad):
		return &problem.Input{Source: dashes(bad.GetFlag().Name), Value: bad.GetValue(),
			Want: kindOf(bad.GetFlag()).Want()}
	case errors.As(err, &syntax):
		return &problem.Input{Source: syntax.GetSpecifiedFlag(), Want: "--name or --name=value"}
	}
	return err // pflag.ErrHelp
}

func kindOf(f *pflag.Flag) config.Kind {
	switch f.Value.Type() {
	case "bool":
		return config.Bool
	case "int":
		return config.Int
	case "duration":
		return config.Duration
	}
	return config.String
}

func dashes(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
