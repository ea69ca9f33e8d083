package containerd

import (
	"context"
	"fmt"
	"os"

	_ "github.com/containerd/containerd/v2/cmd/containerd/builtins" // registers the plugins
	"github.com/containerd/containerd/v2/cmd/containerd/command"
)

// Main runs the containerd daemon until SIGTERM or SIGINT. args begins with
// the name of the program.
func Main(ctx context.Context, args []string) error {
	// The kernel took the name from the path that was executed, which is
	// /proc/self/exe. It only matters to a person who looks at a list of
	// processes, so a failure does too.
	_ = os.WriteFile("/proc/self/comm", []byte("containerd"), 0)
	if err := command.App().Run(ctx, args); err != nil {
		return fmt.Errorf("containerd: %w", err)
	}
	return nil
}
