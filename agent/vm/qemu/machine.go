package qemu

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/a4s-io/a4s/agent/vm/process"
)

// ErrGone says that the machine does not run any more. It is process.ErrGone.
var ErrGone = process.ErrGone

// Machine is a virtual machine that runs, or did.
type Machine struct {
	*process.Process
}

// Start starts a machine. It runs when Start returns. If cgroup is not nil,
// the machine is moved there before its first instruction. On an error nothing
// is left but files in the machine's directory.
func Start(ctx context.Context, c Config, cgroup *process.Cgroup) (*Machine, error) {
	return nil, errors.ErrUnsupported
}

// Attach finds the machine in dir again, which another process may have
// started. It returns ErrGone if that has ended.
func Attach(ctx context.Context, dir string) (*Machine, error) { return nil, errors.ErrUnsupported }

// Status is QEMU's run state: "running", "paused", "shutdown",
// "internal-error", "guest-panicked" and others.
func (m *Machine) Status(ctx context.Context) (string, error) { return "", errors.ErrUnsupported }

// Plug adds a disk to the running machine.
func (m *Machine) Plug(ctx context.Context, d Disk) error { return errors.ErrUnsupported }

// Unplug takes a disk away, which the guest has to agree to. A disk that the
// machine does not have is no error.
func (m *Machine) Unplug(ctx context.Context, id string) error { return errors.ErrUnsupported }

// Powerdown presses the power button. The guest decides what that means.
func (m *Machine) Powerdown(ctx context.Context) error { return errors.ErrUnsupported }

// Stop presses the power button and ends the machine after the grace period.
// It returns when QEMU has ended.
func (m *Machine) Stop(ctx context.Context, grace time.Duration) error { return errors.ErrUnsupported }

// Quit ends the machine at once, with its disks written. It returns when QEMU
// has ended.
func (m *Machine) Quit(ctx context.Context) error { return errors.ErrUnsupported }

// Execute runs one command of the QEMU Machine Protocol. result may be nil.
func (m *Machine) Execute(ctx context.Context, command string, arguments, result any) error {
	return errors.ErrUnsupported
}

// DialPort connects to a port of the machine in dir, by the name of its
// socket. The path may be longer than a socket's name may be.
func DialPort(ctx context.Context, dir, socket string) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}
