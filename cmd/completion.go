package cmd

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

func completionCommand() *cobra.Command {
	const want = "bash, zsh or fish"
	shells := map[string]func(*cobra.Command, io.Writer) error{
		"bash": func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":  func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) },
		"fish": func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
	}
	return leaf(&cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "print the completion script of a shell",
		Long: "bash:  source <(a4s completion bash)\n" +
			"zsh:   source <(a4s completion zsh)\n" +
			"fish:  a4s completion fish | source",
		ValidArgsFunction: cobra.FixedCompletions([]string{"bash", "zsh", "fish"}, cobra.ShellCompDirectiveNoFileComp),
		RunE: action(func(c *call) error {
			if err := wantArgs(c, 1, 1, want); err != nil {
				return err
			}
			generate := shells[c.arg(0)]
			if generate == nil {
				return &problem.Input{Source: "shell", Value: c.arg(0), Want: want}
			}
			return generate(c.Root(), c.out)
		}),
	})
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

// completeFlags gives the flags of all commands the values of their enumerations.
func completeFlags(root *cobra.Command) {
	all := choices()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), root.Name()+" ")
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if values := choicesFor(all, path, f.Name); values != nil {
				// It fails for a flag that has a function already, and none has.
				_ = c.RegisterFlagCompletionFunc(f.Name,
					cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
			}
		})
		for _, below := range c.Commands() {
			walk(below)
		}
	}
	walk(root)
}

// completeSettings completes the flags of a command that config reads.
func completeSettings(table []config.Setting) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			before := strings.TrimLeft(args[len(args)-1], "-")
			for i := range table {
				s := &table[i]
				switch {
				case !strings.HasPrefix(args[len(args)-1], "-") || !slices.Contains(s.Names(), before):
				case len(s.Choices) > 0:
					return s.Choices, cobra.ShellCompDirectiveNoFileComp
				case s.Kind() != config.Bool:
					return nil, cobra.ShellCompDirectiveDefault // often a file
				}
			}
		}
		var out []string
		if strings.HasPrefix("--help", toComplete) {
			out = append(out, "--help")
		}
		for i := range table {
			for _, name := range table[i].Names() {
				if strings.HasPrefix(dashes(name), toComplete) {
					out = append(out, dashes(name)+"\t"+table[i].Usage)
				}
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeTenants completes the name of a tenant.
func completeTenants(c *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return completeNames(c, args, 1, toComplete, func(ctx context.Context, c *call) ([]string, error) {
		admin, _, err := newAdmin(c)
		if err != nil {
			return nil, err
		}
		list, err := admin.List(ctx)
		if err != nil {
			return nil, err
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, nil
	})
}

// completePartitions completes the name of a partition.
func completePartitions(c *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return completeNames(c, args, 1, toComplete, func(ctx context.Context, c *call) ([]string, error) {
		admin, _, err := newAdmin(c)
		if err != nil {
			return nil, err
		}
		list, err := admin.Partitions(ctx)
		var names []string
		for _, p := range list {
			names = append(names, p.Name)
		}
		return names, err
	})
}

// completeNodes completes names of nodes.
func completeNodes(c *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return completeNames(c, args, -1, toComplete, func(ctx context.Context, c *call) ([]string, error) {
		admin, _, err := newAdmin(c)
		if err != nil {
			return nil, err
		}
		nodes, err := admin.Nodes(ctx)
		if err != nil {
			return nil, err
		}
		return nodes.Names(ctx)
	})
}

// completeNames completes an argument of which there are at most most, any number if that
// is negative, by the names that begin so.
func completeNames(
	c *cobra.Command, args []string, most int, toComplete string, names func(context.Context, *call) ([]string, error),
) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if most >= 0 && len(args) >= most {
		return nil, none
	}
	ctx, cancel := context.WithTimeout(c.Context(), 2*time.Second)
	defer cancel()
	all, err := names(ctx, &call{Command: c, ctx: ctx})
	if err != nil {
		return nil, none // there is nobody to tell
	}
	return slices.DeleteFunc(all, func(name string) bool {
		return !strings.HasPrefix(name, toComplete) || slices.Contains(args, name)
	}), none
}

// kubectlCompletes hands the completion of kubectl's command line to kubectl.
func kubectlCompletes(args []string) []string {
	if len(args) > 1 && args[1] == "kubectl" && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return slices.Concat([]string{"kubectl", args[0]}, args[2:])
	}
	return args
}
