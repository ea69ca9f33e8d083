package qemu

import (
	"os"
	"path/filepath"
)

// Accelerator is what runs the guest's instructions.
type Accelerator string

// The accelerators.
const (
	// KVM lets the processor run them.
	KVM Accelerator = "kvm"
	// TCG translates them. It works everywhere and is 10 to 30 times slower.
	TCG Accelerator = "tcg"
)

// DefaultSlots is how many devices can be plugged in while a machine runs.
const DefaultSlots = 16

// Config describes a virtual machine.
type Config struct {
	// Binary is QEMU, a path or a name; empty means DefaultBinary.
	Binary string
	// Dir is the machine's directory. It must exist, and belongs to one
	// machine.
	Dir string
	// Name is shown in the list of processes.
	Name string
	// UUID is the machine's identity for its guest; empty means none.
	UUID string
	// Accelerator must be set: see Choose.
	Accelerator Accelerator
	// MemoryMB and CPUs are the size of the machine.
	MemoryMB, CPUs int
	// Kernel, Initrd and Cmdline are what it boots. Without a kernel the
	// firmware boots the first disk.
	Kernel, Initrd, Cmdline string
	// Disks are there from the start.
	Disks []Disk
	// NICs are its network interfaces.
	NICs []NIC
	// Shares are directories of the host.
	Shares []Share
	// Ports are the channels between the host and programs in the guest.
	Ports []Port
	// Slots is how many disks can be plugged in later; 0 means DefaultSlots.
	Slots int
	// Reboot lets the guest restart itself; otherwise that is its end.
	Reboot bool
}

// Disk is a disk of a machine.
type Disk struct {
	// ID names the disk among those of the machine: letters, digits and "-".
	ID string
	// Path and Format ("qcow2" or "raw") are where it is.
	Path, Format string
	// Serial is how the guest tells it from others; at most 20 characters.
	Serial string
	// ReadOnly disks cannot be written to.
	ReadOnly bool
}

// NIC is a network interface.
type NIC struct {
	// MAC is its hardware address.
	MAC string
	// MTU is told to the guest; 0 means the default.
	MTU int
	// Tap is the host's end. Start hands it to QEMU and does not close it.
	Tap *os.File
}

// Share is a directory of the host that virtiofsd serves.
type Share struct {
	// Tag is the name by which the guest mounts it.
	Tag string
	// Socket is virtiofsd's.
	Socket string
}

// Port is a virtio-serial port of the guest. Its other end is a unix socket in
// the machine's directory that takes one connection at a time.
type Port struct {
	// Name is the port's name in the guest, below /dev/virtio-ports.
	Name string
	// Socket is the name of the socket in the machine's directory.
	Socket string
}

// Names of files in a machine's directory.
const (
	qmpSocket   = "qmp.sock"
	pidFile     = "qemu.pid"
	logFile     = "qemu.log"
	consoleFile = "console.log"
)

// ConsolePath is the file that the serial console of the machine in dir is
// appended to. While somebody holds the machine, what is old is cut out of it
// when it grows too much: the file then has a hole, so offsets stay the same.
func ConsolePath(dir string) string { return filepath.Join(dir, consoleFile) }

// PIDFile is the pid file of the machine in dir.
func PIDFile(dir string) string { return filepath.Join(dir, pidFile) }

// LogPath is where QEMU itself writes what is wrong.
func LogPath(dir string) string { return filepath.Join(dir, logFile) }
