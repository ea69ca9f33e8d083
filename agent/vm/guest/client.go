package guest

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// Client talks to the embedded guest.
//
// Calls wait for a guest that does not answer until their context ends; a
// socket that cannot be dialed is ErrDisconnected at once, except for Ready,
// Wait and Logs, which dial again. Info, Setup, List, Resize, Stats, Update and
// Remove are repeated when the connection is lost. After ErrDisconnected of
// Create or Start it is not known whether they were done; called again they
// return ErrExists and ErrState if so.
type Client struct {
	c *connection
}

var _ Executor = (*Client)(nil)

// New returns a client that dials when it is needed. One socket has one client:
// QEMU hands the port to one connection at a time.
func New(dial Dialer) *Client { return &Client{c: newConnection(dial)} }

// Close lets go of the connection. The guest goes on.
func (c *Client) Close() error { return c.c.close() }

// Ready returns when the guest answers, or when ctx ends.
func (c *Client) Ready(ctx context.Context) (Info, error) {
	var info Info
	err := persist(ctx, func() error { return c.c.call(ctx, protocol.MethodInfo, struct{}{}, &info) })
	return info, err
}

// Setup makes the guest the pod's sandbox. It may be called again, with the
// same content or with other addresses.
func (c *Client) Setup(ctx context.Context, s Sandbox) error {
	return c.c.repeat(ctx, protocol.MethodSetup, s, nil)
}

// Create mounts the container's disks, which are waited for, and keeps what it
// is told for Start.
func (c *Client) Create(ctx context.Context, ct Container) error {
	return c.c.call(ctx, protocol.MethodCreate, ct, nil)
}

// Start returns when the container's program runs. One that cannot be executed
// is ErrNoExecutable.
func (c *Client) Start(ctx context.Context, id string) (Started, error) {
	var s Started
	err := c.c.call(ctx, protocol.MethodStart, protocol.ID{ID: id}, &s)
	return s, err
}

// Signal sends a signal to the container's first process, or to all. When the
// container is not running it is ErrState.
func (c *Client) Signal(ctx context.Context, id string, signal int, all bool) error {
	return c.c.call(ctx, protocol.MethodSignal, protocol.SignalRequest{ID: id, Signal: signal, All: all}, nil)
}

// Wait returns when the container has ended, also if it had before the call. It
// goes on over lost connections.
func (c *Client) Wait(ctx context.Context, id string) (Exit, error) {
	var exit Exit
	err := persist(ctx, func() error {
		return c.c.call(ctx, protocol.MethodWait, protocol.WaitRequest{ID: id}, &exit)
	})
	return exit, err
}

// List returns the containers of the guest.
func (c *Client) List(ctx context.Context) ([]ContainerStatus, error) {
	var list []ContainerStatus
	err := c.c.repeat(ctx, protocol.MethodList, struct{}{}, &list)
	return list, err
}

// Logs hands what the container writes, from the offset on, to keep, and
// returns nil at its end. It may be called before the container is started.
//
// What keep returned nil for is acknowledged, and the guest forgets it; an
// error of keep ends Logs. The guest holds up to 1 MiB that was not
// acknowledged; then the container's writes wait. Logs goes on over lost
// connections, where it left off. With the offset 0, a caller who does not know
// how far its predecessor got continues with what that did not acknowledge.
func (c *Client) Logs(ctx context.Context, id string, from int64, keep func(Output) error) error {
	return persist(ctx, func() error {
		cs, err := c.c.open(ctx, protocol.MethodLogs, protocol.LogsRequest{ID: id, From: from}, nil)
		if err != nil {
			return err
		}
		defer cs.Close()
		for {
			r, err := protocol.ReadRecord(cs)
			if err != nil {
				return lost(ctx, err)
			}
			if r.Stream == 0 {
				// All was handed over; that the guest hears of it is not
				// worth an error.
				_ = cs.CloseWrite()
				_, _ = io.Copy(io.Discard, cs)
				return nil
			}
			if err := keep(Output{Stream: r.Stream, Offset: r.Offset, At: r.At, Data: r.Data}); err != nil {
				return err
			}
			from = r.Offset + int64(len(r.Data))
			if err := protocol.WriteAck(cs, from); err != nil {
				return lost(ctx, err)
			}
		}
	})
}

// Stdin writes to the container's standard input, until ctx ends. Close ends
// that input; without Close, it stays open for the next caller.
func (c *Client) Stdin(ctx context.Context, id string) (io.WriteCloser, error) {
	cs, err := c.c.open(ctx, protocol.MethodStdin, protocol.ID{ID: id}, nil)
	if err != nil {
		return nil, err
	}
	return &input{cs}, nil
}

// input is a container's standard input.
type input struct{ cs *callStream }

func (i *input) Write(p []byte) (int, error) {
	n, err := i.cs.Write(p)
	if err != nil {
		err = lost(i.cs.ctx, err)
	}
	return n, err
}

// Close returns when the container's input is closed.
func (i *input) Close() error {
	defer i.cs.Close()
	if err := i.cs.CloseWrite(); err != nil {
		return lost(i.cs.ctx, err)
	}
	if _, err := io.Copy(io.Discard, i.cs); err != nil {
		return lost(i.cs.ctx, err)
	}
	return nil
}

// Resize sets the size of the container's terminal.
func (c *Client) Resize(ctx context.Context, id string, size TerminalSize) error {
	return c.c.repeat(ctx, protocol.MethodResize, protocol.ResizeRequest{ID: id, Size: size}, nil)
}

// Stats returns those of the machine and of its containers.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	err := c.c.repeat(ctx, protocol.MethodStats, struct{}{}, &s)
	return s, err
}

// Dial connects to a TCP port on the guest's loopback; nothing that listens is
// ErrNotFound. The connection ends with ctx.
func (c *Client) Dial(ctx context.Context, port uint16) (Conn, error) {
	cs, err := c.c.open(ctx, protocol.MethodDial, protocol.DialRequest{Port: port}, nil)
	if err != nil {
		return nil, err
	}
	return cs, nil
}

// Update changes the limits of a container.
func (c *Client) Update(ctx context.Context, id string, r Resources) error {
	return c.c.repeat(ctx, protocol.MethodUpdate, protocol.UpdateRequest{ID: id, Resources: r}, nil)
}

// Remove kills the container if it runs, and unmounts its disks, so that they
// can be unplugged. Removing what is not there succeeds.
func (c *Client) Remove(ctx context.Context, id string) error {
	return c.c.repeat(ctx, protocol.MethodRemove, protocol.ID{ID: id}, nil)
}

// Shutdown ends all containers, with SIGTERM and after the grace period with
// SIGKILL, unmounts the disks and powers off. It returns when that was begun.
func (c *Client) Shutdown(ctx context.Context, grace time.Duration) error {
	err := c.c.call(ctx, protocol.MethodShutdown, protocol.ShutdownRequest{Grace: grace}, nil)
	if errors.Is(err, ErrDisconnected) && ctx.Err() == nil {
		// The machine may have been faster than its answer.
		err = c.c.call(ctx, protocol.MethodShutdown, protocol.ShutdownRequest{Grace: grace}, nil)
	}
	return err
}
