package containerd

import (
	"context"
	"fmt"
	"os"
	"time"

	_ "github.com/containerd/containerd/v2/cmd/containerd/builtins" // registers the plugins
	"github.com/containerd/containerd/v2/cmd/containerd/command"
	"github.com/containerd/containerd/v2/pkg/timeout"
)

// patience is longer than containerd's own 5 s, by upstream's names, for a shim
// that is asked for its state when containerd starts, and for runc to remove
// what a dead shim leaves. On a machine that is busy, such as while a4s starts,
// 5 s are not enough; then containerd ends a container that is well, or forgets
// one whose cgroups are still there. The price is paid where shims hang:
// containerd starts after the sum of both for each of them, one a processor at
// a time. The table timeouts of the configuration wins.
var patience = map[string]time.Duration{
	"io.containerd.timeout.shim.load":    15 * time.Second,
	"io.containerd.timeout.shim.cleanup": 30 * time.Second,
}

// Main runs the containerd daemon until SIGTERM or SIGINT. args begins with
// the name of the program.
func Main(ctx context.Context, args []string) error {
	// The kernel took the name from the path that was executed, which is
	// /proc/self/exe. It only matters to a person who looks at a list of
	// processes, so a failure does too.
	_ = os.WriteFile("/proc/self/comm", []byte("containerd"), 0)
	for name, d := range patience {
		timeout.Set(name, d)
	}
	if err := command.App().Run(ctx, args); err != nil {
		return fmt.Errorf("containerd: %w", err)
	}
	return nil
}
