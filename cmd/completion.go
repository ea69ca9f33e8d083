package cmd

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

// A shell asks "a4s __complete WORD...", where the last word is the one that is being
// written, and is answered with a line for each word that it may become, and a last line
// ":N". A line has the word, a tab and what it means. It is what kubectl understands and
// says, so that a script of a shell can ask either, and what scripts of earlier versions
// ask. a4s finds the command, and urfave/cli calls its BashComplete.
const (
	completionRequest = "__complete"
	// plainRequest asks for words without what they mean.
	plainRequest = "__completeNoDesc"
	// completionFlag has urfave/cli complete.
	completionFlag = "--generate-bash-completion"
)

// What the last line tells shells to do.
const (
	offerFiles = 0 // the word may be the name of a file if nothing else is offered
	offerWords = 4 // nothing else than what is offered
)

// completionTimeout bounds how long a shell waits for names of the cluster.
const completionTimeout = 2 * time.Second

func isCompletion(arg string) bool { return arg == completionRequest || arg == plainRequest }

func completionCommand() *cli.Command {
	const want = "bash, zsh or fish"
	return leaf(&cli.Command{
		Name:      "completion",
		ArgsUsage: "bash|zsh|fish",
		Usage:     "print the completion script of a shell",
		Description: "bash:  source <(a4s completion bash)\n" +
			"zsh:   source <(a4s completion zsh)\n" +
			"fish:  a4s completion fish | source",
		Before:       takes(1, 1, want),
		BashComplete: func(c *cli.Context) { asked(c).answer(c, offerWords, words("bash", "zsh", "fish")) },
		Action: action(func(c *call) error {
			script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.arg(0)]
			if script == "" {
				return &problem.Input{Source: "shell", Value: c.arg(0), Want: want}
			}
			_, err := io.WriteString(c.out, script)
			return err
		}),
	})
}

// question is what a shell wants to have completed.
type question struct {
	// word is the one that is being written.
	word string
	// args are the arguments before it, flags the names of the flags before it.
	args, flags []string
	// of is the flag whose value the word is, nil if it is none.
	of cli.Flag
	// plain says that words are wanted only.
	plain bool
}

type questionKey struct{}

// asked is the question that a command is to answer.
func asked(c *cli.Context) *question {
	q, ok := c.Context.Value(questionKey{}).(*question)
	if !ok {
		return &question{}
	}
	return q
}

// complete answers a shell.
func (a *App) complete(ctx context.Context, request string, args []string) error {
	if len(args) == 0 {
		args = []string{""}
	}
	before, word := args[:len(args)-1], args[len(args)-1]
	o, _ := order(a.root, before) // what is wrong may not be finished
	c := o.command()
	if c.Name == "kubectl" { // which completes its own command line
		o.args = slices.Concat([]string{request}, o.args, []string{word})
		return a.cli.RunContext(ctx, o.whole())
	}
	q := &question{word: word, args: o.args, flags: o.names, of: o.open, plain: request == plainRequest}
	if name, value, given := strings.Cut(word, "="); given && q.of == nil && strings.HasPrefix(name, "--") {
		if f := lookup(c, name[2:]); f != nil && !c.SkipFlagParsing {
			q.word, q.of = value, f
		}
	}
	a.cli.EnableBashCompletion = true
	return a.cli.RunContext(context.WithValue(ctx, questionKey{}, q), append(o.line(), completionFlag))
}

// offer is a word that completes another, and what it means.
type offer struct{ word, meaning string }

func words(list ...string) []offer {
	var out []offer
	for _, word := range list {
		out = append(out, offer{word: word})
	}
	return out
}

// answer tells the shell what begins with the word.
func (q *question) answer(c *cli.Context, then int, offers []offer) {
	var b strings.Builder
	for _, o := range offers {
		if !strings.HasPrefix(o.word, q.word) {
			continue
		}
		b.WriteString(o.word)
		if o.meaning != "" && !q.plain {
			b.WriteString("\t" + o.meaning)
		}
		b.WriteString("\n")
	}
	// A shell that went away wants nothing.
	_, _ = problem.Show(c.App.Writer, "%s:%d\n", problem.Lines(b.String()), then)
}

// completeGroup completes the name of a command below another one.
func completeGroup(c *cli.Context) {
	q := asked(c)
	var out []offer
	switch {
	case strings.HasPrefix(q.word, "-"):
		out = q.flagsOf(c.Command)
	case len(q.args) == 0:
		for _, below := range c.Command.VisibleCommands() {
			out = append(out, offer{below.Name, below.Usage})
		}
		slices.SortFunc(out, func(a, b offer) int { return strings.Compare(a.word, b.word) })
	}
	q.answer(c, offerWords, out)
}

// completeLeaf completes flags and their values, and arguments by a function, without one
// by names of files.
func completeLeaf(arguments cli.BashCompleteFunc) cli.BashCompleteFunc {
	return func(c *cli.Context) {
		q := asked(c)
		switch {
		case q.of != nil:
			path := strings.TrimPrefix(c.Command.HelpName, c.App.Name+" ")
			if values := choicesFor(path, q.of.Names()[0]); values != nil {
				q.answer(c, offerWords, words(values...))
				return
			}
			q.answer(c, offerFiles, nil)
		case strings.HasPrefix(q.word, "-"):
			q.answer(c, offerWords, q.flagsOf(c.Command))
		case arguments != nil:
			arguments(c)
		default:
			q.answer(c, offerFiles, nil)
		}
	}
}

// flagsOf are the flags of a command that can still be given.
func (q *question) flagsOf(c *cli.Command) []offer {
	var out []offer
	for _, f := range c.VisibleFlags() {
		_, repeats := f.(*cli.StringSliceFlag)
		doc, ok := f.(cli.DocGenerationFlag)
		if !ok || !repeats && slices.Contains(q.flags, f.Names()[0]) {
			continue
		}
		_, usage := usageOf(f, doc)
		for _, name := range f.Names() {
			out = append(out, offer{config.Dashed(name), usage})
		}
	}
	return out
}

// choices are the values of enumerations by flag, with the command in front
// where others mean something else by the flag.
func choices() map[string][]string {
	out := map[string][]string{
		"which":                    {"server", "agent"},
		"output":                   {"table", "json"},
		"status output":            {"table", "wide", "json"},
		"tenant list output":       {"table", "wide", "json", "yaml", "name"},
		"tenant kubeconfig output": nil, // a file
		"tenant create output":     nil,
		"support-bundle output":    nil,
		"tenant create role":       {"cluster-admin", "admin", "edit", "view", noRole},
	}
	for _, s := range config.ServerSettings(&config.Server{}) {
		if len(s.Choices) > 0 {
			out[s.Name] = s.Choices
		}
	}
	return out
}

// choicesFor are the values of one flag of a command, nil if it is no
// enumeration.
func choicesFor(path, flag string) []string {
	all := choices()
	if values, ok := all[path+" "+flag]; ok {
		return values
	}
	return all[flag]
}

// completeSettings completes the flags of a command that config reads.
func completeSettings(table []config.Setting) cli.BashCompleteFunc {
	return func(c *cli.Context) {
		q := asked(c)
		if len(q.args) > 0 {
			last := q.args[len(q.args)-1]
			for i := range table {
				s := &table[i]
				switch {
				case !strings.HasPrefix(last, "-") || !slices.Contains(s.Names(), strings.TrimLeft(last, "-")):
				case len(s.Choices) > 0:
					q.answer(c, offerWords, words(s.Choices...))
					return
				case s.Kind() != config.Bool:
					q.answer(c, offerFiles, nil) // often a file
					return
				}
			}
		}
		out := []offer{{word: "--help"}}
		for i := range table {
			for _, name := range table[i].Names() {
				out = append(out, offer{config.Dashed(name), table[i].Usage})
			}
		}
		q.answer(c, offerWords, out)
	}
}

// namesOf are names that a command can be about, as the cluster knows them.
type namesOf func(ctx context.Context, admin *tenantadmin.Admin) ([]string, error)

// completeNames completes an argument of which there are at most most, any number if that
// is negative.
func completeNames(most int, names namesOf) cli.BashCompleteFunc {
	return func(c *cli.Context) {
		q := asked(c)
		var found []string
		if most < 0 || len(q.args) < most {
			ctx, cancel := context.WithTimeout(c.Context, completionTimeout)
			defer cancel()
			// Without a cluster there is nothing to offer, and nobody to tell.
			if admin, _, err := newAdmin(&call{Context: c}); err == nil {
				found, _ = names(ctx, admin)
			}
		}
		found = slices.DeleteFunc(found, func(name string) bool { return slices.Contains(q.args, name) })
		q.answer(c, offerWords, words(found...))
	}
}

func tenantNames(ctx context.Context, admin *tenantadmin.Admin) ([]string, error) {
	list, err := admin.List(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

func partitionNames(ctx context.Context, admin *tenantadmin.Admin) ([]string, error) {
	list, err := admin.Partitions(ctx)
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	return names, err
}

func nodeNames(ctx context.Context, admin *tenantadmin.Admin) ([]string, error) {
	nodes, err := admin.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	return nodes.Names(ctx)
}
