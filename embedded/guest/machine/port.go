//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// pollEvery is how often is looked for what the kernel does not tell of.
const pollEvery = 10 * time.Millisecond

// Port is the virtio-serial port to the host.
type Port struct{ *os.File }

// OpenPort waits for the port and opens it.
func OpenPort(ctx context.Context) (*Port, error) {
	for {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, file := range names {
			if name, err := readTrimmed(file); err != nil || name != protocol.PortName {
				continue
			}
			path := filepath.Join("/dev", filepath.Base(filepath.Dir(file)))
			// A write that would wait in the kernel would do so spinning.
			fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			if err != nil {
				return nil, fmt.Errorf("opening %s: %w", path, err)
			}
			return &Port{os.NewFile(uintptr(fd), path)}, nil
		}
		if err := pause(ctx, pollEvery); err != nil {
			return nil, err
		}
	}
}

// Await implements link.Port.
func (p *Port) Await(ctx context.Context) error {
	raw, err := p.SyscallConn()
	if err != nil {
		return err
	}
	for {
		var events int16
		if err := raw.Control(func(fd uintptr) {
			set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if _, err := unix.Poll(set, 0); err == nil {
				events = set[0].Revents
			}
		}); err != nil {
			return err
		}
		// Without a host it is always ready, to say that there is none.
		if events&unix.POLLHUP == 0 {
			return nil
		}
		if err := pause(ctx, 2*pollEvery); err != nil {
			return err
		}
	}
}

// pause waits, or returns why it does not go on.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// waitFor tries until it succeeds, or ends with what is still missing.
func waitFor[T any](ctx context.Context, limit time.Duration, f func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		v, err := f()
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return v, err
		}
		if pause(ctx, pollEvery) != nil {
			return v, fmt.Errorf("not there after %v: %w", limit, err)
		}
	}
}
