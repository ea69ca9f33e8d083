package cmd

import (
	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/version"
)

func versionCommand() *cli.Command {
	return leaf(&cli.Command{
		Name:      "version",
		Usage:     "print the versions of a4s and of what it is made of",
		ArgsUsage: "[FLAGS]",
		Flags:     []cli.Flag{outputFlag()},
		Action: func(c *cli.Context) error {
			format, err := outputFormat(c)
			if err != nil {
				return err
			}
			if format == "table" {
				return printVersion(c.App.Writer)
			}
			return encode(c.App.Writer, struct {
				Version string         `json:"version"`
				Commit  string         `json:"commit"`
				Parts   []version.Part `json:"parts"`
			}{version.Version, version.Commit, version.Parts()})
		},
	})
}
