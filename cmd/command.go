package cmd

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

// call is one run of a command.
type call struct {
	*cobra.Command
	ctx         context.Context
	args        []string
	out, errOut io.Writer
}

// action makes a function of a call what cobra runs.
func action(f func(*call) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		return f(&call{Command: c, ctx: c.Context(), args: args, out: c.OutOrStdout(), errOut: c.ErrOrStderr()})
	}
}

// arg is the nth argument, empty if there are fewer.
func (c *call) arg(n int) string {
	if n < len(c.args) {
		return c.args[n]
	}
	return ""
}

// IsSet reports whether a flag was given.
func (c *call) IsSet(name string) bool { return c.Flags().Changed(name) }

// value is that of a flag; it is nil if the command has none of the name.
func (c *call) value(name string) pflag.Value {
	if f := c.Flags().Lookup(name); f != nil {
		return f.Value
	}
	return nil
}

// String is the value of a flag as text.
func (c *call) String(name string) string {
	if v := c.value(name); v != nil {
		return v.String()
	}
	return ""
}

// Bool is the value of a flag, false if the command has none of the name.
func (c *call) Bool(name string) bool {
	b, err := strconv.ParseBool(c.String(name))
	return err == nil && b
}

// Duration is the value of a flag, 0 if the command has none of the name.
func (c *call) Duration(name string) time.Duration {
	d, err := time.ParseDuration(c.String(name))
	if err != nil {
		return 0
	}
	return d
}

// StringSlice are the values of a flag that can be repeated.
func (c *call) StringSlice(name string) []string {
	if v, ok := c.value(name).(pflag.SliceValue); ok {
		return v.GetSlice()
	}
	return nil
}

// wantArgs checks the number of arguments of a command; most is -1 for any.
func wantArgs(c *call, least, most int, want string) error {
	n := len(c.args)
	if n >= least && (most < 0 || n <= most) {
		return nil
	}
	in := &problem.Input{Source: "arguments of " + c.CommandPath(), Want: want}
	if n > most && most >= 0 {
		in.Value = c.args[most]
	} else {
		in.Err = config.ErrNoValue
	}
	return in
}

// flag is a flag of a command. A text in back quotes in its usage stands for its
// value in the help.
type flag struct {
	// name is that of the flag, alias another, which is short if it is one letter.
	name, alias string
	add         func(fs *pflag.FlagSet, name, short string)
	// defaults is what the help says of the default.
	defaults string
}

// textValue is a text with what stands for it in the help.
type textValue struct{ text, placeholder string }

func (v *textValue) String() string { return v.text }

// Set implements pflag.Value.
func (v *textValue) Set(s string) error {
	v.text = s
	return nil
}

// Type implements pflag.Value.
func (v *textValue) Type() string { return v.placeholder }

func text(name, alias, value, usage string, shown ...string) flag {
	return flag{name, alias, func(fs *pflag.FlagSet, name, short string) {
		fs.VarP(&textValue{value, "VALUE"}, name, short, usage)
	}, firstOf(shown, value)}
}

func texts(name, alias, usage string) flag {
	return flag{name, alias, func(fs *pflag.FlagSet, name, short string) {
		fs.StringArrayP(name, short, nil, usage)
	}, ""}
}

func toggle(name, alias, usage string) flag {
	return flag{name, alias, func(fs *pflag.FlagSet, name, short string) { fs.BoolP(name, short, false, usage) }, ""}
}

// enabled is a toggle that is on unless --name=false is given.
func enabled(name, usage string) flag {
	return flag{name, "", func(fs *pflag.FlagSet, name, short string) { fs.BoolP(name, short, true, usage) }, ""}
}

func count(name, alias string, value int, usage string, shown ...string) flag {
	defaults := ""
	if value != 0 {
		defaults = strconv.Itoa(value)
	}
	return flag{name, alias, func(fs *pflag.FlagSet, name, short string) {
		fs.IntP(name, short, value, usage)
	}, firstOf(shown, defaults)}
}

func span(name, alias string, value time.Duration, usage string, shown ...string) flag {
	defaults := ""
	if value != 0 {
		defaults = value.String()
	}
	return flag{name, alias, func(fs *pflag.FlagSet, name, short string) {
		fs.DurationP(name, short, value, usage)
	}, firstOf(shown, defaults)}
}

func firstOf(shown []string, otherwise string) string {
	if len(shown) > 0 {
		return shown[0]
	}
	return otherwise
}

// leaf completes a command without subcommands.
func leaf(c *cobra.Command, flags ...flag) *cobra.Command {
	c.Args, c.DisableFlagsInUseLine = cobra.ArbitraryArgs, true
	// pflag says nothing of a default that is the zero value of a type.
	zeros := map[string]string{"bool": "false", "int": "0", "duration": "0s", "stringArray": "[]"}
	long := map[string]string{} // long aliases
	for _, f := range flags {
		if len(f.alias) > 1 {
			long[f.alias] = f.name
		}
	}
	if len(long) > 0 {
		c.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
			if canonical, ok := long[name]; ok {
				name = canonical
			}
			return pflag.NormalizedName(name)
		})
	}
	for _, f := range flags {
		short := ""
		if len(f.alias) == 1 {
			short = f.alias
		}
		f.add(c.Flags(), f.name, short)
		added := c.Flags().Lookup(f.name)
		if f.defaults != "" {
			added.Usage += fmt.Sprintf(" (default: %s)", f.defaults)
		}
		added.DefValue = zeros[added.Value.Type()] // what differs is in the usage
	}
	return c
}

// group completes a command that has nothing but subcommands.
func group(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	c.Use += " COMMAND [FLAGS]"
	c.DisableFlagsInUseLine = true
	c.Args, c.RunE = subcommand, helpOf
	c.AddCommand(commands...)
	return c
}
