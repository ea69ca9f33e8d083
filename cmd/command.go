package cmd

import (
	"context"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

// call is one run of a command.
type call struct {
	*cli.Context
	ctx         context.Context
	args        []string
	in          io.Reader
	out, errOut io.Writer
}

// action makes a function of a call what urfave/cli runs.
func action(f func(*call) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		return f(&call{Context: c, ctx: c.Context, args: c.Args().Slice(), in: c.App.Reader,
			out: c.App.Writer, errOut: c.App.ErrWriter})
	}
}

// arg is the nth argument, empty if there are fewer.
func (c *call) arg(n int) string { return c.Args().Get(n) }

// takes checks the number of arguments of a command before it runs; most is -1 for any.
func takes(least, most int, want string) cli.BeforeFunc {
	return func(c *cli.Context) error {
		in := &problem.Input{Source: "arguments of " + c.Command.HelpName, Want: want}
		switch n := c.NArg(); {
		case n < least:
			in.Err = config.ErrNoValue
		case most >= 0 && n > most:
			in.Value = c.Args().Get(most)
		default:
			return nil
		}
		return in
	}
}

// Flags of commands. A text in back quotes in the usage stands for the value in the help,
// and shown is what the help says of the default. An alias is short if it is one letter.

// placeholderFlag is a flag whose usage does not mention what stands for its value.
type placeholderFlag struct {
	*cli.StringFlag
	placeholder string
}

func text(name, alias, value, usage string, shown ...string) cli.Flag {
	return &cli.StringFlag{Name: name, Aliases: aliases(alias), Value: value, Usage: usage,
		DefaultText: firstOf(shown, value)}
}

func texts(name, alias, usage string) cli.Flag {
	return &cli.StringSliceFlag{Name: name, Aliases: aliases(alias), Usage: usage}
}

func toggle(name, alias, usage string) cli.Flag {
	return &cli.BoolFlag{Name: name, Aliases: aliases(alias), Usage: usage, DisableDefaultText: true}
}

// enabled is a toggle that is on unless --name=false is given.
func enabled(name, usage string) cli.Flag {
	return &cli.BoolFlag{Name: name, Value: true, Usage: usage, DisableDefaultText: true}
}

func count(name, alias string, value int, usage string, shown ...string) cli.Flag {
	defaults := ""
	if value != 0 {
		defaults = strconv.Itoa(value)
	}
	return &cli.IntFlag{Name: name, Aliases: aliases(alias), Value: value, Usage: usage,
		DefaultText: firstOf(shown, defaults)}
}

func span(name, alias string, value time.Duration, usage string, shown ...string) cli.Flag {
	defaults := ""
	if value != 0 {
		defaults = value.String()
	}
	return &cli.DurationFlag{Name: name, Aliases: aliases(alias), Value: value, Usage: usage,
		DefaultText: firstOf(shown, defaults)}
}

func aliases(alias string) []string {
	if alias == "" {
		return nil
	}
	return []string{alias}
}

func firstOf(shown []string, otherwise string) string {
	if len(shown) > 0 {
		return shown[0]
	}
	return otherwise
}

// leaf completes a command without subcommands. It takes no arguments unless it says which.
func leaf(c *cli.Command, flags ...cli.Flag) *cli.Command {
	if c.Before == nil && !c.SkipFlagParsing {
		c.Before = takes(0, 0, "none")
	}
	c.BashComplete = completeLeaf(c.BashComplete)
	return withHelp(c, flags)
}

// group completes a command that has nothing but subcommands.
func group(c *cli.Command, commands ...*cli.Command) *cli.Command {
	c.ArgsUsage = groupUsage
	c.Subcommands = commands
	c.BashComplete = completeGroup
	return withHelp(c, nil)
}

// withHelp gives a command its flags and that for help, which is ours: it is found before urfave/cli
// runs anything.
func withHelp(c *cli.Command, flags []cli.Flag) *cli.Command {
	c.HideHelp, c.CustomHelpTemplate = true, helpTemplate
	c.Flags = append(slices.Clone(flags), toggle("help", "h", "print this help"))
	slices.SortStableFunc(c.Flags, flagsByName)
	return c
}
