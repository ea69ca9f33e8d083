package vm

import (
	"context"
	"io"
	"time"
)

// guest is what the service needs of the program that is process 1 in a
// virtual machine. The connection is made again by itself after a restart of
// the service. Calls about a container name it by its CRI id.
type guest interface {
	// Ready returns when the guest answers.
	Ready(ctx context.Context) error
	// Configure sets host name, resolver, addresses, routes and sysctls.
	Configure(ctx context.Context, pod guestPod) error
	// Create mounts the container's root from the disk of that serial, and
	// binds its mounts; Start runs its process.
	Create(ctx context.Context, c guestContainer) error
	Start(ctx context.Context, id string) error
	// Wait returns when the container has ended, also if it had before. It
	// may be called after a restart of the service.
	Wait(ctx context.Context, id string) (guestExit, error)
	// Output delivers what the container wrote from the given offset on, and
	// returns at the end of the stream. The guest keeps what was not
	// acknowledged, and the process blocks when that is too much.
	Output(ctx context.Context, id, stream string, w io.Writer) error
	// Stdin writes to the container's input; Close closes that.
	Stdin(ctx context.Context, id string) (io.WriteCloser, error)
	Resize(ctx context.Context, id string, width, height uint16) error
	Signal(ctx context.Context, id string, signal string, all bool) error
	Delete(ctx context.Context, id string) error
	Update(ctx context.Context, id string, limits guestLimits) error
	Exec(ctx context.Context, e guestExec) (exitCode int, err error)
	Stats(ctx context.Context) (guestStats, error)
	// Dial connects to a port of the guest's loopback (port-forward).
	Dial(ctx context.Context, port uint16) (io.ReadWriteCloser, error)
	// Poweroff syncs and ends the machine.
	Poweroff(ctx context.Context) error
	Close() error
}

type guestPod struct {
	Hostname  string
	MAC       string
	Addresses []string // with prefix length
	Routes    []guestRoute
	MTU       int
	Servers   []string
	Searches  []string
	Options   []string
	Sysctls   map[string]string
}

type guestRoute struct{ Destination, Gateway string }

type guestContainer struct {
	ID           string
	DiskSerial   string
	ReadOnlyRoot bool
	Args, Env    []string
	WorkDir      string
	User         string // "user[:group]", names of the image
	Groups       []int64
	Capabilities []string
	NoNewPrivs   bool
	Privileged   bool
	TTY, Stdin   bool
	Mounts       []guestMount
	PIDOf        string // "", or the container whose processes it sees; "pod" for all
	Limits       guestLimits
}

// guestMount binds Source, a path in the share, to Target.
type guestMount struct {
	Source, Target string
	ReadOnly       bool
}

type guestLimits struct {
	CPUShares, CPUQuota, CPUPeriod, Memory int64
}

type guestExit struct {
	Code      int
	OOMKilled bool
	At        time.Time
}

type guestExec struct {
	ID             string
	Args           []string
	TTY            bool
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Resize         <-chan [2]uint16
}

type guestStats struct {
	CPU         time.Duration
	MemoryBytes uint64
	Containers  map[string]struct {
		CPU         time.Duration
		MemoryBytes uint64
		WorkingSet  uint64
		Processes   uint64
	}
}
