package cmd

import (
	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
)

func killallCommand(m Modes) *cli.Command {
	return leaf(&cli.Command{
		Name:      "killall",
		Usage:     "end all pods and undo what a4s changed on this machine",
		ArgsUsage: "[FLAGS]",
		Description: "Stops the server or agent, pods and containerd, and removes mounts, network\n" +
			"namespaces, links, packet filter rules and cgroups. Data is kept.",
		Flags: localFlags(),
		Action: func(cCtx *cli.Context) error {
			l, err := local(cCtx)
			if err != nil {
				return err
			}
			return m.Killall(cCtx.Context, l.DataDir)
		},
	})
}

// localFlags are the flags of commands that work on the data directory.
func localFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "configuration file at `PATH`",
			DefaultText: config.DefaultConfigFile},
		&cli.StringFlag{Name: "data-dir", Aliases: []string{"d"}, Usage: "data directory at `PATH`",
			DefaultText: "that of the configuration file, or " + config.DefaultDataDir},
	}
}

// local reads the settings of this machine for a command with localFlags.
func local(cCtx *cli.Context) (*config.Local, error) {
	if err := wantArgs(cCtx, 0, 0, "none"); err != nil {
		return nil, err
	}
	return localSettings(cCtx, "config", "data-dir")
}

// localSettings reads the settings of this machine, where the flags of these
// names come first.
func localSettings(cCtx *cli.Context, names ...string) (*config.Local, error) {
	return config.LoadLocal(source(givenFlags(cCtx, names...)))
}

// givenFlags are those of the flags of these names that were given.
func givenFlags(cCtx *cli.Context, names ...string) []string {
	var args []string
	for _, name := range names {
		if cCtx.IsSet(name) {
			args = append(args, "--"+name+"="+cCtx.String(name))
		}
	}
	return args
}
