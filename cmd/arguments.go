package cmd

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
)

// urfave/cli reads flags as package flag does: up to the first argument, with one value
// each, and what is wrong it reports as text. People write flags where they think of them,
// and main wants reasons with types. So a command line is put into order before urfave/cli
// gets it, which takes what every flag is from the commands themselves:
//
//	a4s token create abc --ttl 1h -o json   as people write it
//	a4s token create --ttl=1h --output=json -- abc   as urfave/cli gets it
//
// The rules are those of GNU: --name=value or --name value, -n value, -nvalue or -n=value,
// short flags without values together, and nothing is a flag after "--". A flag that is
// true or false takes its value by "=" only. What cannot be read so is a mistake, and the
// first one is told. A flag may stand before the command that it is for, too. Commands
// that read their flags themselves get everything after their name as it is.

// ordered is a command line in order.
type ordered struct {
	// path are the commands from a4s to the one that is meant.
	path []*cli.Command
	// flags were given, as --name=value; names are theirs.
	flags, names []string
	// args are the arguments, of a command that reads its flags itself all that follows.
	args []string
	// help says that the help of the command is wanted.
	help bool
	// open is a flag at the end whose value is missing.
	open cli.Flag
}

// command is the one that is meant.
func (o *ordered) command() *cli.Command { return o.path[len(o.path)-1] }

// line is what urfave/cli reads, but for the arguments.
func (o *ordered) line() []string {
	var out []string
	for _, c := range o.path {
		out = append(out, c.Name)
	}
	return append(out, o.flags...)
}

// whole is what urfave/cli reads.
func (o *ordered) whole() []string {
	out := o.line()
	if len(o.args) > 0 && !o.command().SkipFlagParsing {
		out = append(out, "--")
	}
	return append(out, o.args...)
}

// order puts a command line into order. After a mistake it goes on, so that shells can
// complete what is not right yet; the error is the first one.
func order(root *cli.Command, args []string) (*ordered, error) {
	o := &ordered{path: []*cli.Command{root}}
	rest := o.find(args)
	c := o.command()
	if c.SkipFlagParsing {
		o.args = rest
		return o, nil
	}
	err := o.read(rest)
	switch {
	case len(c.Subcommands) == 0:
	case len(o.args) > 0:
		return o, unknownCommand(c, o.args[0])
	case len(o.flags) == 0:
		o.help = true
	}
	return o, err
}

// find finds the command that is meant, and returns what is not the name of a command.
func (o *ordered) find(args []string) (rest []string) {
	for i := 0; i < len(args); i++ {
		c, arg := o.command(), args[i]
		if len(c.Subcommands) == 0 || arg == "--" {
			return append(rest, args[i:]...)
		}
		if len(arg) > 1 && arg[0] == '-' {
			rest = append(rest, arg)
			if i+1 < len(args) && takesNext(c, arg) {
				i++
				rest = append(rest, args[i])
			}
			continue
		}
		if arg == "help" {
			o.help = true
			continue
		}
		below := c.Command(arg)
		if below == nil {
			return append(rest, args[i:]...)
		}
		o.path = append(o.path, below)
	}
	return rest
}

// takesNext reports whether the word after a flag is its value. The flag may be that of a
// command which is not known yet: then it is, unless it has one.
func takesNext(c *cli.Command, arg string) bool {
	if !strings.HasPrefix(arg, "--") && len(arg) > 2 || strings.Contains(arg, "=") {
		return false
	}
	return !isToggle(lookup(c, strings.TrimLeft(arg, "-")))
}

// read reads the flags and arguments of the command.
func (o *ordered) read(args []string) error {
	var first error
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		var err error
		switch {
		case arg == "--":
			o.args = append(o.args, args...)
			return first
		case strings.HasPrefix(arg, "--"):
			args, err = o.long(arg, args)
		case len(arg) > 1 && arg[0] == '-':
			args, err = o.short(arg, args)
		default:
			o.args = append(o.args, arg)
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// long reads --name or --name=value, and returns the arguments that follow.
func (o *ordered) long(arg string, args []string) ([]string, error) {
	name, value, given := strings.Cut(arg[2:], "=")
	if name == "" || name[0] == '-' {
		return args, malformed(arg)
	}
	f := lookup(o.command(), name)
	switch {
	case f == nil || len(name) == 1:
		return args, unknownFlag(o.command(), name)
	case given:
	case isToggle(f):
		value = "true"
	case len(args) == 0:
		o.open = f
		return nil, noValue(f, name)
	default:
		value, args = args[0], args[1:]
	}
	return args, o.set(f, value)
}

// short reads one flag of a letter, or several, of which the last one may have a value.
func (o *ordered) short(arg string, args []string) ([]string, error) {
	for letters := arg[1:]; letters != ""; {
		name, value := letters[:1], letters[1:]
		f := lookup(o.command(), name)
		if f == nil {
			return args, unknownFlag(o.command(), name)
		}
		joined, given := strings.CutPrefix(value, "=")
		switch {
		case given && joined != "":
			return args, o.set(f, joined)
		case isToggle(f):
			if err := o.set(f, "true"); err != nil {
				return args, err
			}
			letters = value
			continue
		case value != "":
			return args, o.set(f, value)
		case len(args) == 0:
			o.open = f
			return nil, noValue(f, name)
		}
		return args[1:], o.set(f, args[0])
	}
	return args, nil
}

// set notes a flag after a look at its value.
func (o *ordered) set(f cli.Flag, value string) error {
	name := f.Names()[0]
	if !fits(kindOf(f), value) {
		return badValue(f, value)
	}
	if name == "help" {
		asked, err := strconv.ParseBool(value)
		o.help = o.help || asked
		return err
	}
	o.flags, o.names = append(o.flags, "--"+name+"="+value), append(o.names, name)
	return nil
}

// lookup finds a flag of a command by its name or an alias, nil if there is none.
func lookup(c *cli.Command, name string) cli.Flag {
	i := slices.IndexFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return nil
	}
	return c.Flags[i]
}

func isToggle(f cli.Flag) bool { return f != nil && kindOf(f) == config.Bool }

// kindOf says what the values of a flag are.
func kindOf(f cli.Flag) config.Kind {
	switch f.(type) {
	case *cli.BoolFlag:
		return config.Bool
	case *cli.IntFlag:
		return config.Int
	case *cli.DurationFlag:
		return config.Duration
	}
	return config.String
}

// fits reports whether a value is one of a kind, as urfave/cli reads it.
func fits(kind config.Kind, value string) bool {
	var err error
	switch kind {
	case config.Bool:
		_, err = strconv.ParseBool(value)
	case config.Int:
		_, err = strconv.ParseInt(value, 0, strconv.IntSize)
	case config.Duration:
		_, err = time.ParseDuration(value)
	}
	return err == nil
}
