package instance

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Elsewhere reports that a process sees another file at path than this one does: it is in a
// container, or in a mount namespace that has something else there. What /proc shows of its
// arguments and of the paths of its files says nothing about this machine then: who runs in a
// container chooses them. dir is the directory of the process in /proc. A process that has ended
// is not elsewhere.
func Elsewhere(dir, path string) bool {
	root := filepath.Join(dir, "root") + "/"
	theirs, err := os.Stat(root)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH), errors.Is(err, fs.ErrPermission):
		return false // it has ended, or who asks is not root
	case err != nil:
		return true // a root that does not answer is not ours
	}
	if ours, err := os.Stat("/"); err == nil && !os.SameFile(ours, theirs) {
		return true // nothing below is looked at: it may be a volume that does not answer
	}
	ours, err := os.Stat(path)
	if err != nil {
		return false // there is nothing to tell them by
	}
	theirs, err = os.Stat(filepath.Join(root, path))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return !os.SameFile(ours, theirs)
}
