package cmd

import (
	"context"
	"errors"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

func serverCommand(m Modes) *cli.Command {
	return configured(&cli.Command{
		Name:      "server",
		ArgsUsage: "[FLAGS]",
		Usage:     "run a control plane and, unless disabled, a node",
	}, config.ServerSettings(&config.Server{}), config.LoadServer, m.Server)
}

// configured completes a command whose flags config reads, together with files and
// the environment, and that runs with what they say.
func configured[T any](
	c *cli.Command, table []config.Setting, load func(config.Source) (*T, []string, error),
	run func(context.Context, *T) error,
) *cli.Command {
	c.Action = action(func(c *call) error {
		cfg, warnings, err := load(source(c.args))
		if errors.Is(err, config.ErrHelp) {
			printHelp(c.out, c.Command)
			return nil
		}
		if err != nil {
			return err
		}
		if err := warn(c.errOut, warnings); err != nil {
			return err
		}
		return run(c.ctx, cfg)
	})
	c.Description = "Every flag is also a key of the configuration file, without its dashes.\n" +
		"Precedence: flag, environment variable, file, default."
	c.SkipFlagParsing = true
	c = leaf(c)
	c.CustomHelpTemplate = helpHead + config.Help(table) + config.HelpEntry("-h, --help", "print this help") +
		helpFoot
	c.BashComplete = completeSettings(table)
	return c
}

// warn prints what is odd about a configuration but no mistake. The log is
// not set up yet: the configuration says where it goes.
func warn(w io.Writer, warnings []string) error {
	for _, text := range warnings {
		if _, err := problem.Show(w, "a4s: warning: %s\n", text); err != nil {
			return err
		}
	}
	return nil
}
