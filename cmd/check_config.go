package cmd

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/cmd/checkconfig"
	"github.com/a4s-io/a4s/internal/problem"
)

func checkConfigCommand() *cli.Command {
	return leaf(&cli.Command{
		Name:        "check-config",
		ArgsUsage:   "[FLAGS]",
		Usage:       "check whether this machine can run a4s",
		Description: "Changes nothing. The exit code is 2 if a check fails; warnings do not count.",
		Action: action(func(c *call) error {
			l, err := local(c)
			if err != nil {
				return err
			}
			return report(c.out, checkconfig.Run(checkconfig.ThisHost(l.DataDir)))
		}),
	},
		localFlags()...)
}

// report prints results and returns a problem if one of them is a failure.
func report(w io.Writer, results []checkconfig.Result) error {
	count := map[checkconfig.Level]int{}
	for _, r := range results {
		count[r.Level]++
		if _, err := problem.Show(w, "%-4s  %-26s %s\n", r.Level, r.Name, r.Found); err != nil {
			return err
		}
		if r.Level != checkconfig.Pass && r.Fix != "" {
			if _, err := problem.Show(w, "      %-26s fix: %s\n", "", r.Fix); err != nil {
				return err
			}
		}
	}
	if _, err := problem.Show(w, "\n%d passed, %d warnings, %d failed\n", count[checkconfig.Pass],
		count[checkconfig.Warn], count[checkconfig.Fail]); err != nil {
		return err
	}
	if n := count[checkconfig.Fail]; n > 0 {
		return &problem.Precondition{What: "this machine", Err: fmt.Errorf("%d of %d checks failed", n, len(results)),
			Fix: "do what the lines marked FAIL say"}
	}
	return nil
}
