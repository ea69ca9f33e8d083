package process

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/vm"
	"github.com/a4s-io/a4s/agent/vm/settings"
	"github.com/a4s-io/a4s/cmd"
	"github.com/a4s-io/a4s/internal/logging"
	"github.com/a4s-io/a4s/internal/preflight"
)

// runVMRuntime is `a4s vm-runtime`: the CRI service of pods that run as
// virtual machines.
func runVMRuntime(ctx context.Context, o *cmd.VMRuntime) error {
	log, err := logging.Setup(logging.Options{Debug: o.Debug})
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // nothing is left to report it to
	if err := preflight.Root("a4s " + settings.Command); err != nil {
		return err
	}
	if err := extendPath(); err != nil {
		return err
	}
	return vm.Serve(ctx, settings.Service{
		Socket: o.Socket, Root: o.Root, State: o.State,
		Containerd: o.Containerd, Snapshotter: o.Snapshotter,
		CNIConfDir: o.CNIConfDir, CNIBinDirs: o.CNIBinDirs,
		Kernel: o.Kernel, Initrd: o.Initrd, Init: o.Init, Accelerator: o.Accelerator,
		Log: logrus.WithField("component", settings.Name),
	})
}
