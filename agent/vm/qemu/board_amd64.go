package qemu

// What machines of amd64 are.
const (
	// DefaultBinary is QEMU's name.
	DefaultBinary = "qemu-system-x86_64"
	// DebianPackage has it.
	DebianPackage = "qemu-system-x86"
	// Console is Linux' name of the serial console.
	Console = "ttyS0"

	board       = "q35,sata=off,smbus=off"
	emulatedCPU = "max"
	// firmware boots a disk; empty is QEMU's own.
	firmware = ""
)
