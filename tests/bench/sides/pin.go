package sides

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Pin lets all processes of the side run on some processors only. What they start later
// inherits that.
func (s *Side) Pin(processors ...int) error {
	dirs, err := s.processes()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := pin(dir, processors); err != nil {
			return fmt.Errorf("pinning %s: %w", s.Host.Name, err)
		}
	}
	return nil
}

// PinSelf is Pin for this process.
func PinSelf(processors ...int) error { return pin("/proc/self", processors) }

// pin pins all threads of a process, given by its directory, until no thread is new: one
// that is not pinned yet may make another.
func pin(dir string, processors []int) error {
	var set unix.CPUSet
	for _, p := range processors {
		set.Set(p)
	}
	pinned := map[int]bool{}
	for {
		threads, err := filepath.Glob(dir + "/task/[0-9]*")
		if err != nil {
			return err
		}
		before := len(pinned)
		for _, path := range threads {
			thread, err := strconv.Atoi(filepath.Base(path))
			if err != nil {
				return err
			}
			if pinned[thread] {
				continue
			}
			pinned[thread] = true
			if err := unix.SchedSetaffinity(thread, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		if len(pinned) == before {
			return nil
		}
	}
}
