package cmd

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/cmd/checkconfig"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

func checkConfigCommand(m Modes) *cli.Command {
	return leaf(&cli.Command{
		Name:      "check-config",
		ArgsUsage: "[FLAGS]",
		Usage:     "check whether this machine can run a4s",
		Description: "Changes nothing. The arguments for kube-apiserver that are configured are read as a\n" +
			"server reads them, with the files that they name.\n" +
			"The exit code is 2 if a check fails; warnings do not count.",
		Action: action(func(c *call) error {
			l, err := local(c)
			if err != nil {
				return err
			}
			results := append(arguments(m, l), checkconfig.Run(checkconfig.ThisHost(l.DataDir))...)
			return report(c.out, results)
		}),
	},
		localFlags()...)
}

// arguments checks those for kube-apiserver, of which most machines have none.
func arguments(m Modes, l *config.Local) []checkconfig.Result {
	if len(l.KubeAPIServerArgs) == 0 && l.AuditPolicyFile == "" {
		return nil
	}
	r := checkconfig.Result{Level: checkconfig.Pass, Name: argumentsName,
		Found: "a server takes them, and the files that they name"}
	if err := m.CheckArguments(l); err != nil {
		r.Level, r.Found = checkconfig.Fail, err.Error()
		r.Fix = "mend the file or the argument: a4s server does not start with it"
	}
	return []checkconfig.Result{r}
}

// argumentsName is the check of arguments.
const argumentsName = "kube-apiserver arguments"

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
