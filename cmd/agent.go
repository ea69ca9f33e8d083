package cmd

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/a4s-io/a4s/internal/config"
)

func agentCommand(m Modes) *cobra.Command {
	return configured(&cobra.Command{
		Use:   "agent --server URL --token TOKEN [FLAGS]",
		Short: "run a node that joins a server",
		RunE: action(func(c *call) error {
			cfg, warnings, err := config.LoadAgent(source(c.args))
			if errors.Is(err, config.ErrHelp) {
				return c.Help()
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
