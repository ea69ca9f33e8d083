//go:build linux

package machine

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// reaper waits for all children of process 1: those it learned of, and those
// whose parents ended.
type reaper struct {
	mu      sync.Mutex
	waiting map[int]chan<- syscall.WaitStatus
}

func newReaper() *reaper {
	r := &reaper{waiting: map[int]chan<- syscall.WaitStatus{}}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	go func() {
		for range signals {
			for r.reap() {
			}
		}
	}()
	return r
}

// reap collects one child that has ended.
func (r *reaper) reap() bool {
	// With the lock, so that a process that is being started is known.
	r.mu.Lock()
	defer r.mu.Unlock()
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	if errors.Is(err, syscall.EINTR) {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	if ch := r.waiting[pid]; ch != nil && (status.Exited() || status.Signaled()) {
		delete(r.waiting, pid)
		ch <- status
	}
	return true
}

// start runs f, which makes a child, and returns where its end is told.
func (r *reaper) start(f func() (int, error)) (int, <-chan syscall.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := f()
	if err != nil {
		return 0, nil, err
	}
	ch := make(chan syscall.WaitStatus, 1)
	r.waiting[pid] = ch
	return pid, ch, nil
}

// signal sends a signal to a child that has not been reaped.
func (r *reaper) signal(pid, signal int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[pid] == nil {
		return os.ErrProcessDone
	}
	return unix.Kill(pid, unix.Signal(signal))
}
