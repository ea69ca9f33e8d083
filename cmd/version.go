package cmd

import (
	"github.com/spf13/cobra"

	"github.com/a4s-io/a4s/internal/version"
)

func versionCommand() *cobra.Command {
	return leaf(&cobra.Command{
		Use:   "version [FLAGS]",
		Short: "print the versions of a4s and of what it is made of",
		RunE: action(func(c *call) error {
			format, err := outputFormat(c)
			if err != nil {
				return err
			}
			if format == "table" {
				return printVersion(c.out)
			}
			return encode(c.out, struct {
				Version string         `json:"version"`
				Commit  string         `json:"commit"`
				Parts   []version.Part `json:"parts"`
			}{version.Version, version.Commit, version.Parts()})
		}),
	},
		outputFlag(),
	)
}
