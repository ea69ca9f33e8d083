package vm

import (
	"context"
	"io"
	"sync"

	"github.com/a4s-io/a4s/agent/vm/crilog"
	"github.com/a4s-io/a4s/agent/vm/guest"
)

// Numbers of output streams in the guest.
const (
	fdStdout = 1
	fdStderr = 2
)

// output is where what a container writes goes: its log and who is attached.
type output struct {
	mu       sync.Mutex
	log      *crilog.Log
	streams  map[int]*crilog.Stream
	attached map[*attached]struct{}
	failed   error // the first error of the log
}

type attached struct {
	writers map[int]io.Writer
	// gone is closed when no more can be written to it.
	gone chan struct{}
}

// open begins with the log of a running container.
func (o *output) open(log *crilog.Log) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = log
	o.streams = map[int]*crilog.Stream{fdStdout: log.Stream(crilog.Stdout), fdStderr: log.Stream(crilog.Stderr)}
	o.attached = map[*attached]struct{}{}
}

// keep takes a piece of output. It never fails: a log that cannot be written,
// on a full disk, must not stop the container.
func (o *output) keep(piece guest.Output) error {
	// Without the lock: who is attached and does not read makes the container
	// wait, but not its end.
	for a, w := range o.write(piece) {
		if _, err := w.Write(piece.Data); err != nil {
			o.detach(a)
		}
	}
	return nil
}

// write writes a piece to the log and returns who else is to have it.
func (o *output) write(piece guest.Output) map[*attached]io.Writer {
	o.mu.Lock()
	defer o.mu.Unlock()
	stream := o.streams[piece.Stream]
	if stream == nil {
		return nil // it has been removed
	}
	if _, err := stream.Write(piece.Data); err != nil && o.failed == nil {
		o.failed = err
	}
	to := map[*attached]io.Writer{}
	for a := range o.attached {
		if w := a.writers[piece.Stream]; w != nil {
			to[a] = w
		}
	}
	return to
}

// detach lets go of who is attached, unless that was done meanwhile.
func (o *output) detach(a *attached) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, there := o.attached[a]; there {
		delete(o.attached, a)
		close(a.gone)
	}
}

// attach copies what the container writes from now on, until it ends or ctx
// does. Either writer may be nil.
func (o *output) attach(ctx context.Context, stdout, stderr io.Writer) {
	a := &attached{writers: map[int]io.Writer{}, gone: make(chan struct{})}
	if stdout != nil {
		a.writers[fdStdout] = stdout
	}
	if stderr != nil {
		a.writers[fdStderr] = stderr
	}
	o.mu.Lock()
	if o.streams == nil { // it has ended
		o.mu.Unlock()
		return
	}
	o.attached[a] = struct{}{}
	o.mu.Unlock()
	select {
	case <-a.gone:
	case <-ctx.Done():
		o.mu.Lock()
		delete(o.attached, a)
		o.mu.Unlock()
	}
}

// reopen continues the log in a new file.
func (o *output) reopen() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.log == nil {
		return nil
	}
	return o.log.Reopen()
}

// close ends the log and lets go of who is attached. It returns the first
// error that there was with the log. It may be repeated.
func (o *output) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for a := range o.attached {
		close(a.gone)
	}
	o.attached = nil
	err := o.failed
	for _, stream := range o.streams {
		if closeErr := stream.Close(); err == nil {
			err = closeErr
		}
	}
	o.streams = nil
	if o.log != nil {
		if closeErr := o.log.Close(); err == nil {
			err = closeErr
		}
		o.log = nil
	}
	return err
}
