package agent

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/network"
	"github.com/a4s-io/a4s/agent/runtime/containerd"
	vmsettings "github.com/a4s-io/a4s/agent/vm/settings"
	"github.com/a4s-io/a4s/agent/vm/supervisor"
	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/noderuntime"
	"github.com/a4s-io/a4s/internal/workload"
)

// vm returns the options of the runtime of virtual machines that a4s brings. It
// takes images from the containerd of a4s, and networks are the node's.
func (r *runtimeSet) vm() supervisor.Options {
	o := supervisor.Options{
		Service: vmsettings.Service{
			Socket:      vmsettings.Socket(instance.RunDir),
			Root:        vmsettings.RootDir(r.cfg.DataDir),
			State:       vmsettings.StateDir(instance.RunDir),
			Containerd:  containerd.Socket(containerdState()),
			Snapshotter: r.cfg.Snapshotter,
			CNIConfDir:  network.CNIConfDir(r.cfg.DataDir),
			Kernel:      r.cfg.VMKernel,
			Initrd:      r.cfg.VMInitrd,
			Accelerator: r.cfg.VMAccelerator,
			Log:         logrus.WithField("component", vmsettings.Name),
		},
		Debug: r.cfg.Debug,
	}
	for _, other := range r.registered {
		if other.Type == workload.Container && other.Endpoint != noderuntime.Builtin &&
			!r.builtin(workload.Container) {
			o.Containerd = strings.TrimPrefix(other.Endpoint, "unix://") // if it is one
			break
		}
	}
	if r.payload != nil {
		o.CNIBinDirs = []string{r.payload.CNIBinDir}
		o.Init = r.payload.GuestInit
	}
	if o.Kernel == "" {
		o.Kernel = installedGuest("vmlinuz")
	}
	if o.Initrd == "" {
		o.Initrd = installedGuest("initrd.img")
	}
	return o
}

// installedGuest finds a file of the installed guest: beside the program, as
// the build leaves it, or where packages put such things. Empty if there is
// none.
func installedGuest(name string) string {
	dirs := []string{"/usr/local/lib/a4s/guest", "/usr/lib/a4s/guest"}
	if self, err := os.Executable(); err == nil {
		dirs = append([]string{filepath.Join(filepath.Dir(self), "guest")}, dirs...)
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
			return path
		}
	}
	return ""
}
