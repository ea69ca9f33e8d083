package agent

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/network"
	"github.com/a4s-io/a4s/agent/runtime/containerd"
	"github.com/a4s-io/a4s/agent/vm"
	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/noderuntime"
	"github.com/a4s-io/a4s/internal/workload"
)

// vm returns the options of the carried runtime of virtual machines. It takes
// images from the carried containerd, and networks are the node's.
func (n *Node) vm() vm.Options {
	o := vm.Options{
		Service: vm.Service{
			Socket:      vm.Socket(instance.RunDir),
			Root:        vm.RootDir(n.cfg.DataDir),
			State:       vm.StateDir(instance.RunDir),
			Containerd:  containerd.Socket(n.stateDir()),
			Snapshotter: n.cfg.Snapshotter,
			CNIConfDir:  network.CNIConfDir(n.cfg.DataDir),
			Kernel:      n.cfg.VMKernel,
			Initrd:      n.cfg.VMInitrd,
			Accelerator: n.cfg.VMAccelerator,
			Log:         logrus.WithField("component", vm.Name),
		},
		Debug: n.cfg.Debug,
	}
	for _, r := range n.registered {
		if r.Type == workload.Container && r.Endpoint != noderuntime.Builtin && !n.carries(workload.Container) {
			o.Containerd = strings.TrimPrefix(r.Endpoint, "unix://") // if it is one
			break
		}
	}
	if n.payload != nil {
		o.CNIBinDirs = []string{n.payload.CNIBinDir}
		o.Init = n.payload.GuestInit
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
