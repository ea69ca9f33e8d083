package cmd

import (
	"encoding/json"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/problem"
)

// outputFlag is that of commands which print a table or JSON.
func outputFlag() cli.Flag {
	return text("output", "o", "table", "`FORMAT` of the output: table or json")
}

// outputFormat is the value of outputFlag, "table" or "json".
func outputFormat(c *call) (string, error) {
	format := c.String("output")
	if format != "table" && format != "json" {
		return "", &problem.Input{Source: "--output", Value: format, Want: "table or json"}
	}
	return format, nil
}

// encode writes JSON for people to read.
func encode(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
