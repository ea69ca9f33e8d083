package qemu

// What machines of arm64 are.
const (
	// DefaultBinary is QEMU's name.
	DefaultBinary = "qemu-system-aarch64"
	// DebianPackage has it.
	DebianPackage = "qemu-system-arm"
	// Console is Linux' name of the serial console.
	Console = "ttyAMA0"

	board = "virt,gic-version=max"
	// Without it, most of the time goes into emulating signed pointers.
	emulatedCPU = "max,pauth-impdef=on"
	// firmware boots a disk: QEMU has none for this board, Debian's package qemu-efi-aarch64 does.
	firmware = "/usr/share/qemu-efi-aarch64/QEMU_EFI.fd"
)
