package cmd

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
)

// groupUsage is how a command that has subcommands is used.
const groupUsage = "COMMAND [FLAGS]"

// documentation is where the pages of docs are to be read.
const documentation = "https://github.com/a4s-io/a4s/tree/main/docs"

// Templates of help. The flags of a command that config reads come after helpHead, in the
// form of config; the others have helpTemplate.
const (
	helpHead = "{{.HelpName}}: {{.Usage}}\n\nUsage: {{.HelpName}} {{.ArgsUsage}}\n" +
		"{{with .Description}}\n{{.}}\n{{end}}" +
		"\nExamples:\n{{range examples .}}  # {{.Why}}\n  {{.Line}}\n{{end}}"

	helpCommands = "{{range commands .}}\n{{.Name}}:\n{{range .Members}}  {{.Name}}\t{{.Usage}}\n{{end}}{{end}}"

	helpFlags = "{{range flags .}}\n{{.Name}}:\n{{range .Members}}{{entry .}}{{end}}{{end}}"

	helpFoot = "{{if .VisibleCommands}}\n\"{{.HelpName}} COMMAND --help\" says more about a command.\n{{end}}" +
		"\nDocumentation: " + documentation + "\n"

	helpTemplate = helpHead + helpCommands + helpFlags + helpFoot
)

// printHelp prints the help of a command by its template.
func printHelp(w io.Writer, c *cli.Command) {
	cli.HelpPrinterCustom(w, c.CustomHelpTemplate, c,
		map[string]any{"commands": commandCategories, "flags": flagCategories, "entry": flagEntry,
			"examples": examplesOf})
}

// category has commands or flags under one heading.
type category[T any] struct {
	Name    string
	Members []T
}

// byCategory puts a list under headings, in the order of first use; urfave/cli has them by
// name.
func byCategory[T any](list []T, heading func(T) string) []category[T] {
	var out []category[T]
	for _, one := range list {
		name := heading(one)
		i := slices.IndexFunc(out, func(known category[T]) bool { return known.Name == name })
		if i < 0 {
			i, out = len(out), append(out, category[T]{Name: name})
		}
		out[i].Members = append(out[i].Members, one)
	}
	return out
}

// commandCategories are those of the commands below one, in the order in which they are
// declared: what is needed first comes first.
func commandCategories(of *cli.Command) []category[*cli.Command] {
	return byCategory(of.VisibleCommands(), func(c *cli.Command) string { return cmp.Or(c.Category, "Commands") })
}

// flagCategories are those of the flags of a command.
func flagCategories(of *cli.Command) []category[cli.Flag] {
	return byCategory(of.VisibleFlags(), func(f cli.Flag) string {
		if c, ok := f.(cli.CategorizableFlag); ok && c.GetCategory() != "" {
			return c.GetCategory()
		}
		return "Flags"
	})
}

// flagEntry is the help of a flag, "-d, --data-dir PATH" and what it does.
func flagEntry(f cli.Flag) string {
	doc, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return ""
	}
	head := "    " + config.Dashed(f.Names()[0])
	for _, alias := range f.Names()[1:] {
		if len(alias) == 1 {
			head = config.Dashed(alias) + ", " + config.Dashed(f.Names()[0])
		}
	}
	placeholder, usage := usageOf(f, doc)
	if doc.TakesValue() {
		head += " " + placeholder
	}
	return config.HelpEntry(head, usage)
}

// usageOf is what stands for the value of a flag, and what the flag does.
func usageOf(f cli.Flag, doc cli.DocGenerationFlag) (placeholder, usage string) {
	before, quoted, found := strings.Cut(doc.GetUsage(), "`")
	placeholder, after, _ := strings.Cut(quoted, "`")
	usage = before + placeholder + after
	if p, ok := f.(placeholderFlag); ok {
		placeholder = p.placeholder
	} else if !found && kindOf(f) == config.Duration {
		placeholder = "DURATION"
	} else if !found {
		placeholder = "VALUE"
	}
	if d := defaultOf(f); d != "" {
		usage += " (default: " + d + ")"
	}
	return placeholder, usage
}

// defaultOf is what the help says of the default of a flag.
func defaultOf(f cli.Flag) string {
	switch f := f.(type) {
	case *cli.StringFlag:
		return f.DefaultText
	case *cli.IntFlag:
		return f.DefaultText
	case *cli.DurationFlag:
		return f.DefaultText
	}
	return ""
}

func flagsByName(a, b cli.Flag) int { return cmp.Compare(a.Names()[0], b.Names()[0]) }
