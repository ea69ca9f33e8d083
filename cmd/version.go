package cmd

import (
	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/version"
)

// versionReport is what `a4s version -o json` prints.
type versionReport struct {
	Version string         `json:"version"`
	Commit  string         `json:"commit"`
	Parts   []version.Part `json:"parts"`
}

func versions() versionReport {
	return versionReport{version.Version, version.Commit, version.Parts()}
}

func versionCommand() *cli.Command {
	return leaf(&cli.Command{
		Name:      "version",
		ArgsUsage: "[FLAGS]",
		Usage:     "print the versions of a4s and of what it is made of",
		Action: action(func(c *call) error {
			format, err := outputFormat(c)
			if err != nil {
				return err
			}
			if format == "table" {
				return printVersion(c.out)
			}
			return encode(c.out, versions())
		}),
	},
		outputFlag(),
	)
}
