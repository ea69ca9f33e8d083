package cmd

import (
	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
)

func agentCommand(m Modes) *cli.Command {
	return configured(&cli.Command{
		Name:      "agent",
		ArgsUsage: "--server URL --token TOKEN [FLAGS]",
		Usage:     "run a node that joins a server",
	}, config.AgentSettings(&config.Agent{}), config.LoadAgent, m.Agent)
}
