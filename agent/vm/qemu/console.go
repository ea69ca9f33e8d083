package qemu

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// consoleMost is how many bytes a console may take, which a guest can
	// write at will.
	consoleMost = 16 << 20
	// consoleKept is how many of the last ones are kept then.
	consoleKept = 8 << 20
	// consoleEvery is how often that is looked at; a guest writes some 10 MB
	// in that time.
	consoleEvery = 15 * time.Second
)

// keepConsoleSmall bounds the console until the machine ends or is closed.
func (m *Machine) keepConsoleSmall() {
	tick := time.NewTicker(consoleEvery)
	defer tick.Stop()
	for {
		select {
		case <-m.Done():
			return
		case <-m.closing:
			return
		case <-tick.C:
			// The next time may do better, and nothing depends on it.
			_ = trimConsole(ConsolePath(m.dir), consoleMost, consoleKept)
		}
	}
}

// trimConsole frees what a file holds but for its last bytes, if it takes more
// than most.
func trimConsole(path string, most, kept int64) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Blocks*512 <= most || info.Size() <= kept {
		return nil
	}
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0,
		info.Size()-kept); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
