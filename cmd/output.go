package cmd

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/problem"
)

// outputFlag is that of commands which print a table or JSON, or more forms of a table.
func outputFlag(more ...string) cli.Flag {
	return text("output", "o", "table", "`FORMAT` of the output: "+outputFormats(more))
}

// outputFormat is the value of outputFlag with the same forms.
func outputFormat(c *call, more ...string) (string, error) {
	format := c.String("output")
	if format != "table" && format != "json" && !slices.Contains(more, format) {
		return "", &problem.Input{Source: "--output", Value: format, Want: outputFormats(more)}
	}
	return format, nil
}

func outputFormats(more []string) string {
	return strings.Join(append([]string{"table"}, more...), ", ") + " or json"
}

// encode writes JSON for people to read.
func encode(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
