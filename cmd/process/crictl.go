package process

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/a4s-io/a4s/agent"
	"github.com/a4s-io/a4s/embedded/payload"
	"github.com/a4s-io/a4s/internal/preflight"
	"github.com/a4s-io/a4s/internal/problem"
)

const (
	// criEndpoint and imageEndpoint are variables that crictl reads. Its flags win over them, and they over
	// /etc/crictl.yaml, which may be that of another runtime of this machine.
	criEndpoint, imageEndpoint = "CONTAINER_RUNTIME_ENDPOINT", "IMAGE_SERVICE_ENDPOINT"
	// criAnswers bounds the look at the socket.
	criAnswers = 5 * time.Second
)

// runCrictl becomes crictl with these arguments. Its commands cannot be imported, so it is one of the
// carried programs.
func runCrictl(ctx context.Context, dataDir string, args []string) error {
	if err := preflight.Root("a4s crictl"); err != nil {
		return err
	}
	if !otherEndpoint(args, os.Getenv(criEndpoint)) {
		if asksRuntime(args) {
			if err := answers(ctx, agent.CRISocket()); err != nil {
				return err
			}
		}
		for _, name := range []string{criEndpoint, imageEndpoint} {
			if os.Getenv(name) != "" {
				continue
			}
			if err := os.Setenv(name, "unix://"+agent.CRISocket()); err != nil {
				return err
			}
		}
	}
	path, err := payload.ExtractTool(ctx, dataDir, "crictl")
	if err != nil {
		return err
	}
	if err := returnSignals(ctx); err != nil {
		return err
	}
	if err := syscall.Exec(path, append([]string{"crictl"}, args...), os.Environ()); err != nil {
		return fmt.Errorf("starting %s: %w", path, err)
	}
	return nil
}

// otherEndpoint reports whether the arguments or the variable name another runtime than that of this node.
func otherEndpoint(args []string, variable string) bool {
	return variable != "" || slices.ContainsFunc(args, func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return name == "--runtime-endpoint" || name == "-r" || name == "-runtime-endpoint"
	})
}

// asksRuntime reports whether crictl will ask the runtime, as far as it can be told: what it says
// without one is for people who have none running as well.
func asksRuntime(args []string) bool {
	return len(args) > 0 && !slices.ContainsFunc(args, func(arg string) bool {
		return slices.Contains([]string{"-h", "--help", "-help", "help", "h", "-v", "--version", "completion",
			"config"}, arg)
	})
}

// answers says what to do if nobody listens at the socket.
func answers(ctx context.Context, socket string) error {
	d := net.Dialer{Timeout: criAnswers}
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return &problem.Precondition{What: "container runtimes of this node", Err: err,
			Fix: `start it with "a4s server" or "a4s agent"; if it should be running, its log says why it is not`}
	}
	return conn.Close()
}
