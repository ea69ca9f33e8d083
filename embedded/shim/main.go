//go:build linux

package main

import (
	"context"

	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/manager"
	"github.com/containerd/containerd/v2/pkg/shim"
)

func main() {
	registerTasks()
	shim.RunShim(context.Background(), tidy{manager.NewShimManager("io.containerd.runc.v2")})
}
