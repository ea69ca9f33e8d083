package cmd

import (
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
)

func serverCommand(m Modes) *cli.Command {
	table := config.ServerSettings(&config.Server{})
	c := &cli.Command{
		Name:      "server",
		Usage:     "run a control plane and, unless disabled, a node",
		ArgsUsage: "[FLAGS]",
		Description: "Every flag is also a key of the configuration file, without its dashes.\n" +
			"Precedence: flag, environment variable, file, default.",
		SkipFlagParsing:    true, // config reads them, together with files and environment
		Flags:              config.Flags(table),
		CustomHelpTemplate: config.Help(table),
	}
	c.Action = func(cCtx *cli.Context) error {
		cfg, warnings, err := config.LoadServer(source(cCtx.Args().Slice()))
		if errors.Is(err, config.ErrHelp) {
			return commandHelp(cCtx.App.Writer, []*cli.Command{c})
		}
		if err != nil {
			return err
		}
		if err := warn(cCtx.App.ErrWriter, warnings); err != nil {
			return err
		}
		return m.Server(cCtx.Context, cfg)
	}
	return leaf(c)
}

// warn prints what is odd about a configuration but no mistake. The log is
// not set up yet: the configuration says where it goes.
func warn(w io.Writer, warnings []string) error {
	for _, text := range warnings {
		if _, err := fmt.Fprintln(w, "a4s: warning:", text); err != nil {
			return err
		}
	}
	return nil
}
