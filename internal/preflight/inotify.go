package preflight

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/problem"
)

// FileWatches checks that a program can still watch files n times. The kubelet
// ends its process when it cannot.
func FileWatches(n int) error {
	return fileWatches(n, func() (int, error) { return unix.InotifyInit1(unix.IN_CLOEXEC) })
}

func fileWatches(n int, open func() (int, error)) (err error) {
	for i := range n {
		fd, failed := open()
		if failed != nil {
			return &problem.Precondition{
				What: "inotify instances",
				Err:  fmt.Errorf("%d are left of those that a user may have, %d needed: %w", i, n, failed),
				Fix: "raise fs.inotify.max_user_instances, for instance: " +
					"sysctl -w fs.inotify.max_user_instances=1024",
			}
		}
		defer func() { err = errors.Join(err, unix.Close(fd)) }()
	}
	return nil
}
