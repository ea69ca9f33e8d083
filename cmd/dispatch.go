package cmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

// invocation is what a command line asks for.
type invocation struct {
	version, help bool
	// path are the command and its parents, outermost first.
	path []*cli.Command
	// args are the arguments in the form in which urfave/cli cannot
	// misunderstand them: flags as --name=value before "--".
	args []string
}

// resolve finds the command that args name and checks its flags.
func resolve(app *cli.App, args []string) (*invocation, error) {
	inv := &invocation{}
	given, rest, err := config.Scan(app.Name, specs(app.Flags), args)
	if err != nil {
		return nil, err
	}
	for _, g := range given {
		inv.version = inv.version || g.Name == "version"
		inv.help = inv.help || g.Name == "help"
	}
	if inv.version {
		return inv, nil
	}
	commands := app.Commands
	for len(commands) > 0 {
		if len(rest) == 0 { // a group alone
			inv.help = true
			return inv, nil
		}
		name := rest[0]
		rest = rest[1:]
		if name == "help" || name == "h" {
			inv.help = true
			continue
		}
		c, err := lookup(commands, inv, name)
		if err != nil {
			return nil, err
		}
		inv.path = append(inv.path, c)
		inv.args = append(inv.args, c.Name)
		if c.SkipFlagParsing {
			inv.args = append(inv.args, rest...)
			return inv, nil
		}
		if given, rest, err = scanFlags(c, fullName(inv.path), rest); err != nil {
			return nil, err
		}
		for _, g := range given {
			if g.Name == "help" {
				inv.help = true
				continue
			}
			inv.args = append(inv.args, "--"+g.Name+"="+g.Value)
		}
		commands = c.Subcommands
	}
	if len(rest) > 0 {
		inv.args = append(append(inv.args, "--"), rest...)
	}
	return inv, nil
}

// scanFlags reads the flags of one command. Those of a command without
// subcommands may also follow its arguments.
func scanFlags(c *cli.Command, name string, args []string) (given []config.Given, rest []string, err error) {
	for {
		more, after, err := config.Scan(name, specs(c.Flags), args)
		if err != nil {
			return nil, nil, err
		}
		given = append(given, more...)
		terminated := len(after) < len(args) && args[len(args)-len(after)-1] == "--"
		if len(c.Subcommands) > 0 || len(after) == 0 || terminated {
			return given, append(rest, after...), nil
		}
		rest, args = append(rest, after[0]), after[1:]
	}
}

func lookup(commands []*cli.Command, inv *invocation, name string) (*cli.Command, error) {
	var names []string
	for _, c := range commands {
		if c.HasName(name) {
			return c, nil
		}
		names = append(names, c.Names()...)
	}
	parent := strings.TrimSpace("a4s " + fullNameOf(inv.path))
	in := &problem.Input{Source: fmt.Sprintf("command %q", name), Err: config.ErrUnknownCommand,
		Want: fmt.Sprintf("one that %q lists", parent+" --help")}
	if near := config.Nearest(name, names); near != "" {
		in.Want = fmt.Sprintf("%q, or %s", near, in.Want)
	}
	return nil, in
}

func fullNameOf(path []*cli.Command) string {
	names := make([]string, 0, len(path))
	for _, c := range path {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

func fullName(path []*cli.Command) string { return "a4s " + fullNameOf(path) }

// specs describes urfave/cli flags to config.Scan.
func specs(flags []cli.Flag) []config.Spec {
	out := make([]config.Spec, 0, len(flags)+1)
	for _, f := range flags {
		spec := config.Spec{Names: slices.Clone(f.Names())}
		switch f.(type) {
		case *cli.BoolFlag:
			spec.Kind = config.Bool
		case *cli.IntFlag:
			spec.Kind = config.Int
		case *cli.DurationFlag:
			spec.Kind = config.Duration
		case *cli.StringSliceFlag:
			spec.Kind = config.List
		}
		out = append(out, spec)
	}
	return append(out, config.HelpSpec())
}
