package cmd

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

func completionCommand() *cli.Command {
	const shells = "bash, zsh or fish"
	return leaf(&cli.Command{
		Name:      "completion",
		Usage:     "print the completion script of a shell",
		ArgsUsage: "bash|zsh|fish",
		Description: "bash:  source <(a4s completion bash)\n" +
			"zsh:   source <(a4s completion zsh)\n" +
			"fish:  a4s completion fish | source",
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 1, 1, shells); err != nil {
				return err
			}
			switch shell := c.Args().First(); shell {
			case "bash":
				return bashCompletion(c.App.Writer, c.App)
			case "zsh":
				if _, err := io.WriteString(c.App.Writer,
					"autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"); err != nil {
					return err
				}
				return bashCompletion(c.App.Writer, c.App)
			case "fish":
				return fishCompletion(c.App.Writer, c.App)
			default:
				return &problem.Input{Source: "shell", Value: shell, Want: shells}
			}
		},
	})
}

// node is a command as completion sees it.
type node struct {
	path  string // "token create", "" for a4s itself
	words []string
	flags []cli.Flag
}

func completionTree(app *cli.App) []node {
	root := node{flags: app.Flags}
	nodes := []node{}
	var walk func(prefix string, parent *node, commands []*cli.Command)
	walk = func(prefix string, parent *node, commands []*cli.Command) {
		for _, c := range commands {
			parent.words = append(parent.words, c.Name)
			n := node{path: strings.TrimSpace(prefix + " " + c.Name), flags: c.Flags}
			if c.Name == "completion" {
				n.words = []string{"bash", "zsh", "fish"}
			}
			walk(n.path, &n, c.Subcommands)
			nodes = append(nodes, n)
		}
	}
	walk("", &root, app.Commands)
	return append(nodes, root)
}

// choices are the values of enumerations by flag, with the command in front
// where others mean something else by the flag.
func choices() map[string][]string {
	out := map[string][]string{
		"which":                         {"server", "agent"},
		"status output":                 {"table", "json"},
		"doctor output":                 {"table", "json"},
		"secrets-encrypt status output": {"table", "json"},
		"certificate check output":      {"table", "json"},
		"certificate rotate output":     {"table", "json"},
		"bootstrap apply output":        {"table", "json"},
		"bootstrap list output":         {"table", "json"},
		"runtime list output":           {"table", "json"},
		"runtime add output":            {"table", "json"},
		"tenant list output":            {"table", "wide", "json", "yaml", "name"},
		"tenant create role":            {"cluster-admin", "admin", "edit", "view", noRole},
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
func choicesFor(all map[string][]string, path, flag string) []string {
	if values := all[path+" "+flag]; values != nil {
		return values
	}
	return all[flag]
}

func dashes(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func bashCompletion(w io.Writer, app *cli.App) error {
	nodes := completionTree(app)
	var paths, words, values strings.Builder
	enums := choices()
	var withValue []string
	for _, n := range nodes {
		list := slices.Clone(n.words)
		for _, f := range n.flags {
			for _, name := range f.Names() {
				list = append(list, dashes(name))
			}
			doc, ok := f.(cli.DocGenerationFlag)
			if !ok || !doc.TakesValue() {
				continue
			}
			name := f.Names()[0]
			for _, alias := range f.Names() {
				// -v has a value in some commands and none in a4s itself.
				if n.path != "" && choicesFor(enums, n.path, name) == nil &&
					!slices.Contains(withValue, dashes(alias)) {
					withValue = append(withValue, dashes(alias))
				}
			}
		}
		if n.path != "kubectl" && n.path != "ctr" {
			list = append(list, "--help")
		}
		if n.path != "" {
			fmt.Fprintf(&paths, "%q|", n.path)
		}
		fmt.Fprintf(&words, "\t\t%q) words=%q ;;\n", n.path, strings.Join(list, " "))
	}
	for _, key := range slices.Sorted(maps.Keys(enums)) {
		pattern := `*" --` + key + `"`
		if i := strings.LastIndexByte(key, ' '); i >= 0 {
			pattern = `"` + key[:i] + ` --` + key[i+1:] + `"`
		}
		fmt.Fprintf(&values, "\t\t%s) words=%q; COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); return ;;\n",
			pattern, strings.Join(enums[key], " "))
	}
	slices.Sort(withValue)
	_, err := fmt.Fprintf(w, bashTemplate, strings.TrimSuffix(paths.String(), "|"), values.String(),
		strings.Join(withValue, "|"), words.String())
	return err
}

// bashTemplate takes the command paths, the cases of enumerations, the flags
// with other values, and the words by command. kubectl completes itself.
const bashTemplate = `_a4s() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} path= words= i next
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		next="${path:+$path }${COMP_WORDS[i]}"
		case $next in
		%s) path=$next ;;
		esac
	done
	if [ "$path" = kubectl ]; then
		words=$(a4s kubectl __complete "${COMP_WORDS[@]:2:COMP_CWORD-2}" "$cur" 2>/dev/null | grep -v '^:' | cut -f1)
		COMPREPLY=($(compgen -W "$words" -- "$cur"))
		return
	fi
	case "$path $prev" in
%s	esac
	if [ -n "$path" ]; then
		case $prev in
		%s) COMPREPLY=($(compgen -f -- "$cur")); return ;;
		esac
	fi
	case $path in
%s	esac
	case "$path $cur" in
	"tenant delete -"* | "tenant kubeconfig -"*) ;;
	"tenant delete "* | "tenant kubeconfig "*) words="$words $(_a4s_tenants)" ;;
	esac
	COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
_a4s_tenants() {
	timeout 2 a4s tenant list --output name 2>/dev/null | cut -d/ -f2
}
complete -F _a4s a4s
`

func fishCompletion(w io.Writer, app *cli.App) error {
	var b strings.Builder
	b.WriteString("complete -c a4s -f\n")
	enums := choices()
	quote := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'" }
	var walk func(path, condition string, commands []*cli.Command, flags []cli.Flag)
	walk = func(path, condition string, commands []*cli.Command, flags []cli.Flag) {
		for _, f := range flags {
			fmt.Fprintf(&b, "complete -c a4s -n %s", quote(condition))
			for _, name := range f.Names() {
				if len(name) == 1 {
					fmt.Fprintf(&b, " -s %s", name)
				} else {
					fmt.Fprintf(&b, " -l %s", name)
				}
			}
			doc, ok := f.(cli.DocGenerationFlag)
			if !ok {
				b.WriteString("\n")
				continue
			}
			switch values := choicesFor(enums, path, f.Names()[0]); {
			case values != nil:
				fmt.Fprintf(&b, " -x -a %s", quote(strings.Join(values, " ")))
			case doc.TakesValue():
				b.WriteString(" -r -F")
			}
			fmt.Fprintf(&b, " -d %s\n", quote(strings.ReplaceAll(doc.GetUsage(), "`", "")))
		}
		var names []string
		for _, c := range commands {
			names = append(names, c.Name)
		}
		for _, c := range commands {
			fmt.Fprintf(&b, "complete -c a4s -n %s -a %s -d %s\n",
				quote(condition+"; and not __fish_seen_subcommand_from "+strings.Join(names, " ")),
				c.Name, quote(c.Usage))
			sub := "__fish_seen_subcommand_from " + c.Name
			if condition != "true" {
				sub = condition + "; and " + sub
			}
			walk(strings.TrimSpace(path+" "+c.Name), sub, c.Subcommands, c.Flags)
		}
	}
	walk("", "true", app.Commands, nil)
	for _, name := range []string{"delete", "kubeconfig"} {
		fmt.Fprintf(&b,
			"complete -c a4s -n %s -a '(timeout 2 a4s tenant list --output name 2>/dev/null | cut -d/ -f2)'\n",
			quote("__fish_seen_subcommand_from tenant; and __fish_seen_subcommand_from "+name))
	}
	fmt.Fprintf(&b, "complete -c a4s -n %s -a 'bash zsh fish'\n", quote("__fish_seen_subcommand_from completion"))
	_, err := io.WriteString(w, b.String())
	return err
}
