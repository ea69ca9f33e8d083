package settings

import (
	"path/filepath"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/vm/qemu"
	"github.com/a4s-io/a4s/agent/vm/shares"
)

// Name is the name of the component and of the runtime.
const Name = "vm"

// Command is the subcommand of a4s that is the runtime service.
const Command = "vm-runtime"

// Service are the settings of the runtime service.
type Service struct {
	// Socket is the unix socket to serve the CRI on.
	Socket string
	// Root holds what survives a reboot: disks and records.
	Root string
	// State holds what does not: sockets, shares, network namespaces. It must
	// be short, because sockets are below it.
	State string
	// Containerd is the socket of the containerd that has the images.
	Containerd string
	// Snapshotter is where containerd unpacks them.
	Snapshotter string
	// CNIConfDir and CNIBinDirs are the node's network.
	CNIConfDir string
	CNIBinDirs []string
	// Kernel and Initrd are the guest of containers. Init is its init program,
	// which is put into the initrd; empty means that the initrd has one.
	Kernel, Initrd, Init string
	// Accelerator is "auto", "kvm" or "tcg".
	Accelerator string
	// QEMU and Virtiofsd are programs; empty means those of the machine.
	QEMU, Virtiofsd string
	// Log may be nil.
	Log *logrus.Entry
}

// WithDefaults returns the settings with the defaults of those that are empty.
func (o Service) WithDefaults() Service {
	if o.QEMU == "" {
		o.QEMU = qemu.DefaultBinary
	}
	if o.Virtiofsd == "" {
		o.Virtiofsd = shares.DefaultBinary
	}
	if o.Snapshotter == "" {
		o.Snapshotter = "overlayfs"
	}
	if o.Accelerator == "" {
		o.Accelerator = "auto"
	}
	if o.Log == nil {
		o.Log = logrus.WithField("component", Name)
	}
	return o
}

// Socket returns the runtime's socket below a run directory, which is that of
// the instance.
func Socket(runDir string) string { return filepath.Join(StateDir(runDir), "vm.sock") }

// StateDir returns the volatile state below a run directory.
func StateDir(runDir string) string { return filepath.Join(runDir, "vm") }

// RootDir returns where disks and records are below a data directory.
func RootDir(dataDir string) string { return filepath.Join(dataDir, "agent", "vm") }
