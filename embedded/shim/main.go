//go:build linux

package main

import (
	"context"

	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/manager"
	// Registers the task service in this binary's plugin registry. The a4s
	// binary must never import it: there it would become a plugin of the daemon.
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/task/plugin"
	"github.com/containerd/containerd/v2/pkg/shim"
)

func main() {
	shim.RunShim(context.Background(), tidy{manager.NewShimManager("io.containerd.runc.v2")})
}
