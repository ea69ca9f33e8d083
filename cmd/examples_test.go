package cmd

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
)

// everyCommand has the full names of all commands, with a4s itself.
func everyCommand() []string {
	out := []string{"a4s"}
	for _, path := range commandPaths() {
		out = append(out, "a4s "+path)
	}
	return out
}

func TestEveryCommandHasExamples(t *testing.T) {
	noConfig(t)
	all := examples()
	for _, name := range everyCommand() {
		if n := len(all[name]); n < 1 || n > 3 {
			t.Errorf("%s has %d examples, want one to three", name, n)
		}
		_, help, _, err := run(t, append([]string{"help"}, strings.Fields(name)[1:]...)...)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(help, "\nDocumentation: "+documentation+"\n") {
			t.Errorf("the help of %s does not say where the documentation is", name)
		}
		for _, e := range all[name] {
			if !strings.Contains(help, "\n  # "+e.Why+"\n  "+e.Line+"\n") {
				t.Errorf("the help of %s lacks %q", name, e.Line)
			}
			if !strings.HasPrefix(typed(e.Line)+" ", name+" ") {
				t.Errorf("%q is no example of %s", e.Line, name)
			}
		}
		delete(all, name)
	}
	for name := range all {
		t.Errorf("there are examples of %s, which does not exist", name)
	}
}

// typed is the command of a line for a shell.
func typed(line string) string {
	line = strings.TrimSuffix(strings.TrimPrefix(line, "source <("), ")")
	line, _, _ = strings.Cut(line, " | ")
	return line
}

// TestExamplesCanBeTyped gives each example to its command, up to what it does.
func TestExamplesCanBeTyped(t *testing.T) {
	noConfig(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("password\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, list := range examples() {
		for _, e := range list {
			words := strings.Fields(strings.ReplaceAll(typed(e.Line), "/etc/a4s/token", token))
			ran := ""
			app := NewApp(Modes{
				Server:  func(context.Context, *config.Server) error { ran = "a4s server"; return nil },
				Agent:   func(context.Context, *config.Agent) error { ran = "a4s agent"; return nil },
				Kubectl: func(context.Context, *KubectlRun) error { ran = "a4s kubectl"; return nil },
				Ctr:     func(context.Context, []string) error { ran = "a4s ctr"; return nil },
				Crictl:  func(context.Context, string, []string) error { ran = "a4s crictl"; return nil },
			})
			app.Stdout, app.Stderr = &strings.Builder{}, &strings.Builder{}
			onlyNote(app.root, &ran)
			if err := app.RunContext(t.Context(), words); err != nil {
				t.Errorf("%s: %q: %v", name, e.Line, err)
			} else if ran == "" || !strings.HasPrefix(strings.Join(words, " ")+" ", ran+" ") {
				t.Errorf("%s: %q runs %q", name, e.Line, ran)
			}
			checkValues(t, app.root, e.Line, words[1:])
		}
	}
}

// onlyNote has commands note their name, but for those that have modes of their own.
func onlyNote(parent *cli.Command, ran *string) {
	for _, c := range parent.Subcommands {
		if len(c.Subcommands) == 0 && !c.SkipFlagParsing {
			c.Action = func(*cli.Context) error { *ran = c.HelpName; return nil }
		}
		onlyNote(c, ran)
	}
}

// checkValues checks what a command would check of its flags and arguments.
func checkValues(t *testing.T, root *cli.Command, line string, args []string) {
	t.Helper()
	o, err := order(root, args)
	if err != nil {
		t.Errorf("%q: %v", line, err)
		return
	}
	path := strings.TrimPrefix(o.command().HelpName, "a4s ")
	for _, given := range o.flags {
		flag, value, _ := strings.Cut(strings.TrimPrefix(given, "--"), "=")
		if f := lookup(o.command(), flag); !slices.Contains(o.command().VisibleFlags(), f) {
			t.Errorf("%q: --%s is hidden", line, flag)
		}
		if choices := choicesFor(path, flag); choices != nil && !slices.Contains(choices, value) {
			t.Errorf("%q: --%s is one of %q", line, flag, choices)
		}
	}
	if path == "etcd-snapshot delete" || path == "etcd-snapshot restore" {
		if name := filepath.Base(o.args[0]); !archive.IsSnapshot(name) {
			t.Errorf("%q: %q is no name of a snapshot", line, name)
		}
	}
}

// TestEveryCommandIsInAGroup: none is under a heading that says nothing, and what people
// begin with is the first.
func TestEveryCommandIsInAGroup(t *testing.T) {
	root := NewApp(Modes{}).root
	groups := commandCategories(root)
	if first := groups[0].Members[0].Name; first != "server" {
		t.Errorf("the first command is %s", first)
	}
	for _, c := range root.Subcommands {
		if c.Category == "" || c.Hidden {
			t.Errorf("%s is in no group, or hidden", c.Name)
		}
	}
	for _, g := range groups {
		if len(g.Members) < 2 {
			t.Errorf("%s has one command", g.Name)
		}
	}
}

// TestKubeconfigIsRead: the flag of this name means the same wherever there is one, and
// files are written by --output.
func TestKubeconfigIsRead(t *testing.T) {
	var walk func(c *cli.Command)
	walk = func(c *cli.Command) {
		for _, f := range c.VisibleFlags() {
			doc, ok := f.(cli.DocGenerationFlag)
			if !ok {
				continue
			}
			name, reads := f.Names()[0], strings.Contains(doc.GetUsage(), "`PATH`")
			if strings.Contains(name, "kubeconfig") && (name != "kubeconfig" || !reads) {
				t.Errorf("%s --%s: %s", c.HelpName, name, doc.GetUsage())
			}
		}
		for _, below := range c.Subcommands {
			walk(below)
		}
	}
	walk(NewApp(Modes{}).root)
}
