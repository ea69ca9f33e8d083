package qemu

import (
	"context"
	"errors"
	"time"
)

// Probe says how to find out whether KVM works.
type Probe struct {
	// Binary is QEMU, a path or a name; empty means DefaultBinary.
	Binary string
	// Kernel, Initrd and Cmdline are a guest to boot.
	Kernel, Initrd, Cmdline string
	// Port, if not empty, is the name of a virtio-serial port: a guest that
	// writes to it has booted. So has one whose kernel started its first
	// program.
	Port string
	// Timeout is how long the guest may take; 0 means 5 seconds.
	Timeout time.Duration
	// Cache is the file that keeps the result for this kernel of the host,
	// QEMU and guest; empty means none.
	Cache string
}

// Choice is the accelerator of machines on this host.
type Choice struct {
	Accelerator Accelerator
	// Reason says why, for people.
	Reason string
}

// Choose returns the accelerator for what the operator wants: "kvm" and "tcg"
// are taken as they are, "auto" is KVM if a guest boots with it and TCG
// otherwise.
func Choose(ctx context.Context, want string, p Probe) (Choice, error) {
	return Choice{}, errors.ErrUnsupported
}
