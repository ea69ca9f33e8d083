// Command a4s is multi-tenant, scale-out Kubernetes in one binary. The name it
// is called by decides what it is: a4s, kubectl, ctr, crictl, or a child process: the
// node of a server, the containerd of a node, the proxy of its Ingresses, what looks at a
// HelmChart of a tenant.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"

	"k8s.io/client-go/transport"

	"github.com/a4s-io/a4s/agent/ingress"
	"github.com/a4s-io/a4s/agent/nodechild"
	"github.com/a4s-io/a4s/cmd"
	"github.com/a4s-io/a4s/cmd/process"
	"github.com/a4s-io/a4s/embedded/containerd"
	_ "github.com/a4s-io/a4s/embedded/noplugins" // no shared libraries in a static program
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/renewal"
	"github.com/a4s-io/a4s/server/addons/charts"
	"github.com/a4s-io/a4s/server/addons/charts/confined"
)

func main() {
	os.Exit(run(os.Args))
}

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), process.StopSignals()...)
	defer stop()
	// A second signal ends the process the hard way.
	context.AfterFunc(ctx, stop)

	// Before anything can have a client.
	transport.CertCallbackRefreshDuration = renewal.ReloadEvery

	var err error
	switch name := filepath.Base(args[0]); name {
	case "containerd":
		err = containerd.Main(ctx, args)
	case ingress.Command:
		err = ingress.Main(ctx, args[1:])
	case confined.Command:
		err = confined.Main(ctx, charts.Confined)
	case nodechild.Command:
		err = process.RunNode(ctx)
	case "kubectl", "ctr", "crictl":
		// Through the command of the same name, which knows where this
		// machine's cluster and containerd are.
		err = cmd.NewApp(process.Modes(os.Exit)).RunContext(ctx,
			append([]string{"a4s"}, append([]string{name}, args[1:]...)...))
	default:
		err = cmd.NewApp(process.Modes(os.Exit)).RunContext(ctx, args)
	}
	if err != nil {
		problem.Show(os.Stderr, "a4s: %s\n", problem.Lines(err.Error())) //nolint:errcheck // nothing is left to do
	}
	return problem.ExitCode(err)
}
