package guest

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// What is sent, as the guest knows it.
type (
	Info            = protocol.Info
	Sandbox         = protocol.Sandbox
	Interface       = protocol.Interface
	Route           = protocol.Route
	DNS             = protocol.DNS
	Container       = protocol.Container
	Disk            = protocol.Disk
	Mount           = protocol.Mount
	Process         = protocol.Process
	User            = protocol.User
	Rlimit          = protocol.Rlimit
	Resources       = protocol.Resources
	Exit            = protocol.Exit
	ContainerStatus = protocol.ContainerStatus
	Started         = protocol.Started
	TerminalSize    = protocol.TerminalSize
	Stats           = protocol.Stats
)

// Failures that callers distinguish, with errors.Is.
var (
	// ErrNotFound: there is no such container.
	ErrNotFound = errors.New("not found in the guest")
	// ErrExists: there is such a container already.
	ErrExists = errors.New("exists in the guest")
	// ErrState: the container is not in a state for that.
	ErrState = errors.New("wrong state")
	// ErrInvalid: the guest cannot make sense of a value.
	ErrInvalid = errors.New("invalid")
	// ErrNoExecutable: the program does not exist or cannot be executed.
	ErrNoExecutable = errors.New("cannot be executed")
	// ErrUnsupported: this kind of guest cannot do that.
	ErrUnsupported = errors.New("not supported by this guest")
	// ErrDisconnected: the connection was lost before the answer; whether the
	// call was done is not known.
	ErrDisconnected = errors.New("connection to the guest lost")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("client closed")
	// ErrTimeout: a command was ended because it took too long.
	ErrTimeout = errors.New("command timed out")
)

// Dialer connects to the socket of the guest's port.
type Dialer func(ctx context.Context) (net.Conn, error)

// Output is a piece of what a container wrote.
type Output struct {
	// Stream is 1 or 2.
	Stream int
	// Offset is the position of Data in all the container's output, both
	// streams together.
	Offset int64
	// At is when the guest read it, by the guest's clock.
	At   time.Time
	Data []byte
}

// ExecRequest is a further process in a container.
type ExecRequest struct {
	// Container is its id. In a machine with a system of its own it is empty.
	Container string
	Process   Process
	// Timeout ends the process; zero is none.
	Timeout time.Duration
}

// Streams are the standard streams of an exec; each may be nil.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Resize, with Process.TTY.
	Resize <-chan TerminalSize
}

// Conn is a connection to a port in the guest.
type Conn interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// Executor runs commands in a guest. Client and Agent implement it.
type Executor interface {
	// Ready returns when the guest answers, or when ctx ends.
	Ready(ctx context.Context) (Info, error)
	// Exec runs a command and returns its exit code. An error means that the
	// code is not known.
	Exec(ctx context.Context, req ExecRequest, streams Streams) (int, error)
	// Shutdown powers the machine off; it returns when that was begun.
	Shutdown(ctx context.Context, grace time.Duration) error
	// Close lets go of the connection. The guest goes on.
	Close() error
}
