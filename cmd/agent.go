package cmd

import (
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
)

func agentCommand(m Modes) *cli.Command {
	return configured(&cli.Command{
		Name:      "agent",
		ArgsUsage: "--server URL --token TOKEN [FLAGS]",
		Usage:     "run a node that joins a server",
		Action: action(func(c *call) error {
			cfg, warnings, err := config.LoadAgent(source(c.args))
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
			return m.Agent(c.ctx, cfg)
		}),
	}, config.AgentSettings(&config.Agent{}))
}
