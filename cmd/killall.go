package cmd

import (
	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
)

func killallCommand(m Modes) *cli.Command {
	return leaf(&cli.Command{
		Name:      "killall",
		ArgsUsage: "[FLAGS]",
		Usage:     "end all pods and undo what a4s changed on this machine",
		Description: "Stops the server or agent, pods and containerd, and removes mounts, network\n" +
			"namespaces, links, packet filter rules and cgroups. Data is kept.",
		Action: action(func(c *call) error {
			l, err := local(c)
			if err != nil {
				return err
			}
			return m.Killall(c.ctx, l.DataDir)
		}),
	},
		localFlags()...)
}

// localFlags are the flags of commands that work on the data directory.
func localFlags() []cli.Flag {
	return []cli.Flag{
		text("config", "c", "", "configuration file at `PATH`", config.DefaultConfigFile),
		text("data-dir", "d", "", "data directory at `PATH`",
			"that of the configuration file, or "+config.DefaultDataDir),
	}
}

// local reads the settings of this machine for a command with localFlags.
func local(c *call) (*config.Local, error) {
	return localSettings(c, "config", "data-dir")
}

// localSettings reads the settings of this machine, where the flags of these
// names come first.
func localSettings(c *call, names ...string) (*config.Local, error) {
	return config.LoadLocal(source(givenFlags(c, names...)))
}

// givenFlags are those of the flags of these names that were given.
func givenFlags(c *call, names ...string) []string {
	var args []string
	for _, name := range names {
		if c.IsSet(name) {
			args = append(args, "--"+name+"="+c.String(name))
		}
	}
	return args
}
