package cmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
)

// printHelp prints the help of the command that path leads to, of a4s itself
// if path is empty.
func (a *App) printHelp(path []*cli.Command) error {
	if len(path) == 0 {
		return a.rootHelp()
	}
	return commandHelp(a.Stdout, path)
}

func (a *App) rootHelp() error {
	var b strings.Builder
	fmt.Fprintf(&b, "a4s: %s\n\nUsage: a4s COMMAND [FLAGS]\n\nCommands:\n", a.cli.Usage)
	writeCommands(&b, a.cli.Commands)
	b.WriteString("\nFlags:\n")
	writeFlags(&b, a.cli.Flags)
	b.WriteString("\n\"a4s COMMAND --help\" says more about a command.\n")
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}

func commandHelp(w io.Writer, path []*cli.Command) error {
	c := path[len(path)-1]
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nUsage: %s", fullName(path), c.Usage, fullName(path))
	switch {
	case len(c.Subcommands) > 0:
		b.WriteString(" COMMAND [FLAGS]")
	case c.ArgsUsage != "":
		b.WriteString(" " + c.ArgsUsage)
	}
	b.WriteString("\n")
	if c.Description != "" {
		b.WriteString("\n" + c.Description + "\n")
	}
	if len(c.Subcommands) > 0 {
		b.WriteString("\nCommands:\n")
		writeCommands(&b, c.Subcommands)
	}
	// Commands with many flags render them themselves, in groups.
	if c.CustomHelpTemplate != "" {
		b.WriteString(c.CustomHelpTemplate)
	} else {
		b.WriteString("\nFlags:\n")
		writeFlags(&b, c.Flags)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeCommands(b *strings.Builder, commands []*cli.Command) {
	for _, c := range commands {
		b.WriteString(config.HelpEntry(c.Name, c.Usage))
	}
}

// placeholderFlag is a flag whose usage does not mention its placeholder.
type placeholderFlag struct {
	*cli.StringFlag
	placeholder string
}

// writeFlags renders flags. The value's placeholder is what stands in back
// quotes in the usage, as with package flag.
func writeFlags(b *strings.Builder, flags []cli.Flag) {
	for _, f := range flags {
		doc, ok := f.(cli.DocGenerationFlag)
		if !ok {
			continue
		}
		before, quoted, found := strings.Cut(doc.GetUsage(), "`")
		placeholder, after, _ := strings.Cut(quoted, "`")
		usage := before + placeholder + after
		if !found {
			placeholder, usage = "VALUE", doc.GetUsage()
		}
		if p, ok := f.(placeholderFlag); ok {
			placeholder = p.placeholder
		}
		head := "    --" + f.Names()[0]
		if names := f.Names(); len(names) > 1 && len(names[1]) == 1 {
			head = "-" + names[1] + ", --" + names[0]
		}
		if doc.TakesValue() {
			head += " " + placeholder
			if d := doc.GetDefaultText(); d != "" {
				usage += " (default: " + strings.Trim(d, `"`) + ")"
			}
		}
		b.WriteString(config.HelpEntry(head, usage))
	}
	b.WriteString(config.HelpEntry("-h, --help", "print this help"))
}
