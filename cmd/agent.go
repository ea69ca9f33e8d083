package cmd

import (
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
)

func agentCommand(m Modes) *cli.Command {
	table := config.AgentSettings(&config.Agent{})
	c := &cli.Command{
		Name:      "agent",
		Usage:     "run a node that joins a server",
		ArgsUsage: "--server URL --token TOKEN [FLAGS]",
		Description: "Every flag is also a key of the configuration file, without its dashes.\n" +
			"Precedence: flag, environment variable, file, default.",
		SkipFlagParsing:    true, // config reads them, together with files and environment
		Flags:              config.Flags(table),
		CustomHelpTemplate: config.Help(table),
	}
	c.Action = func(cCtx *cli.Context) error {
		cfg, warnings, err := config.LoadAgent(source(cCtx.Args().Slice()))
		if errors.Is(err, config.ErrHelp) {
			return commandHelp(cCtx.App.Writer, []*cli.Command{c})
		}
		if err != nil {
			return err
		}
		if err := warn(cCtx.App.ErrWriter, warnings); err != nil {
			return err
		}
		return m.Agent(cCtx.Context, cfg)
	}
	return leaf(c)
}
