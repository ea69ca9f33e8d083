package process

import (
	"context"
	"os"
	"os/signal"

	ctrapp "github.com/containerd/containerd/v2/cmd/ctr/app"

	"github.com/a4s-io/a4s/cmd"
	"github.com/a4s-io/a4s/cmd/kubectl"
	"github.com/a4s-io/a4s/internal/problem"
)

// runKubectl is upstream's kubectl with these arguments.
func runKubectl(ctx context.Context, run *cmd.KubectlRun, exit func(code int)) error {
	if err := returnSignals(ctx); err != nil {
		return err
	}
	return kubectl.Run(run, func(err error) {
		problem.Show(os.Stderr, "a4s: %s\n", problem.Lines(err.Error())) //nolint:errcheck // nothing is left to do
		exit(problem.ExitCode(err))
	})
}

// returnSignals gives a tool of upstream the signals as it has them by itself:
// it ends by them at once, unless it asks for them.
func returnSignals(ctx context.Context) error {
	signal.Reset(StopSignals()...)
	return context.Cause(ctx) // one may have come already
}

// runCtr is containerd's ctr with these arguments.
func runCtr(ctx context.Context, args []string) error {
	if err := returnSignals(ctx); err != nil {
		return err
	}
	return ctrapp.New().Run(ctx, append([]string{"ctr"}, args...))
}
