package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// Exec runs a process in a container and returns its exit code, when its output
// was delivered too. A process that was killed because of Timeout is ErrTimeout.
// When ctx ends or the connection is lost, a process with a timeout is killed;
// any other loses its streams and goes on.
func (c *Client) Exec(ctx context.Context, req ExecRequest, streams Streams) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var started protocol.ExecStarted
	call, err := c.c.open(ctx, protocol.MethodExec, protocol.ExecRequest{
		ID: req.Container, Process: req.Process, Stdin: streams.Stdin != nil, Timeout: req.Timeout,
	}, &started)
	if err != nil {
		return 0, err
	}
	defer call.Close()

	outputs := []io.Writer{streams.Stdout, streams.Stderr}
	if req.Process.TTY {
		outputs = outputs[:1]
	}
	var copies sync.WaitGroup
	failed := make([]error, len(outputs))
	for i, to := range outputs {
		from, err := c.c.open(ctx, protocol.MethodExecIO, protocol.ExecIORequest{Exec: started.Exec, FD: i + 1}, nil)
		if err != nil {
			return 0, err
		}
		defer from.Close()
		if to == nil {
			to = io.Discard
		}
		copies.Go(func() { failed[i] = deliver(ctx, to, from) })
	}
	if streams.Stdin != nil {
		to, err := c.c.open(ctx, protocol.MethodExecIO, protocol.ExecIORequest{Exec: started.Exec, FD: 0}, nil)
		if err != nil {
			return 0, err
		}
		defer to.Close()
		// It ends when its reader does; an exec does not wait for that.
		go func() {
			_, _ = io.Copy(to, streams.Stdin)
			_ = to.CloseWrite()
		}()
	}
	if streams.Resize != nil {
		go c.resize(ctx, req.Container, started.Exec, streams.Resize)
	}

	if err := protocol.WriteMessage(call, struct{}{}); err != nil {
		return 0, lost(ctx, err)
	}
	var exit Exit
	if err := call.reply(&exit); err != nil {
		return 0, fmt.Errorf("exec: %w", lost(ctx, err))
	}
	copies.Wait()
	if exit.TimedOut {
		return exit.Code, fmt.Errorf("%w after %v", ErrTimeout, req.Timeout)
	}
	return exit.Code, errors.Join(failed...)
}

// deliver copies output to where it is wanted. Output that is not wanted any
// more is read all the same: the process is not the one to suffer.
func deliver(ctx context.Context, to io.Writer, from *callStream) error {
	w := &writer{Writer: to}
	if _, err := io.Copy(w, from); err != nil {
		if w.failed == nil {
			return lost(ctx, err)
		}
		_, _ = io.Copy(io.Discard, from)
		return fmt.Errorf("handing on output: %w", w.failed)
	}
	return nil
}

// writer remembers that writing failed.
type writer struct {
	io.Writer
	failed error
}

func (w *writer) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.failed = err
	return n, err
}

func (c *Client) resize(ctx context.Context, id, exec string, sizes <-chan TerminalSize) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			// The process may have ended meanwhile.
			_ = c.c.repeat(ctx, protocol.MethodResize, protocol.ResizeRequest{ID: id, Exec: exec, Size: size}, nil)
		}
	}
}
