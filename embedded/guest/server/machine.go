package server

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// Machine is what containers run on.
type Machine interface {
	Info() protocol.Info
	Setup(ctx context.Context, s protocol.Sandbox) error
	// Create mounts what the container needs.
	Create(ctx context.Context, c protocol.Container) error
	// Start starts the container's first process, and Exec a further one.
	Start(c protocol.Container, stdio Stdio) (Proc, error)
	Exec(c protocol.Container, p protocol.Process, stdio Stdio) (Proc, error)
	// Kill sends a signal to all processes of the container.
	Kill(id string, signal int) error
	// Remove unmounts what Create mounted. No process of it is left.
	Remove(id string) error
	Update(id string, r protocol.Resources) error
	Stats(ids []string) (protocol.Stats, error)
	// Poweroff ends the machine.
	Poweroff() error
}

// Stdio are the process's ends of its standard streams. With a terminal only
// Proc.TTY is used.
type Stdio struct {
	Stdin, Stdout, Stderr *os.File
}

// Proc is a process that was started.
type Proc struct {
	protocol.Started
	// TTY is the terminal's other end, which belongs to the caller.
	TTY *os.File
	// Wait returns when the process has ended. It is called once.
	Wait func() protocol.Exit
	// Signal sends a signal to this process.
	Signal func(signal int) error
}

// Error is a failure with a code of the protocol.
type Error struct {
	Code string
	Err  error
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error.
func Errorf(code, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// failure turns an error into a reply.
func failure(err error) protocol.Reply {
	code := protocol.CodeInternal
	var e *Error
	if errors.As(err, &e) {
		code = e.Code
	}
	return protocol.Reply{Code: code, Error: err.Error()}
}
