package localstorage

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// deepest is how many directories in each other are open at a time. What is deeper is moved up: pods can
	// nest directories without a limit, and descriptors have one.
	deepest = 32
	// atATime is how many names of a directory are read at a time.
	atATime = 512
)

// errMore says that a volume has more than could be removed by the deadline.
var errMore = errors.New("there is more to remove")

// clearing removes what is in a volume. It follows no link and enters no other file system.
type clearing struct {
	volume   *os.File
	device   uint64
	deadline time.Time
}

// removeTree removes a directory of parent with all that is in it, until the deadline: then it returns errMore.
// What is written meanwhile is removed as well.
func removeTree(parent *os.File, name string, deadline time.Time) error {
	at := int(parent.Fd())
	err := unix.Unlinkat(at, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	c := &clearing{deadline: deadline}
	if c.volume, c.device, err = openDirectory(parent, name); err != nil {
		return err
	}
	defer c.volume.Close() //nolint:errcheck // it was only read
	if err := c.empty(c.volume, 0); err != nil {
		return err
	}
	if err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		if errors.Is(err, unix.ENOTEMPTY) {
			return errMore // somebody writes
		}
		return &os.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

// openDirectory opens a directory of another one, which is no link.
func openDirectory(parent *os.File, name string) (*os.File, uint64, error) {
	fd, err := unix.Openat(int(parent.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, &os.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, 0, errors.Join(&os.PathError{Op: "stat", Path: name, Err: err}, f.Close())
	}
	return f, st.Dev, nil
}

// empty removes what is in a directory. What cannot be removed keeps nothing else.
func (c *clearing) empty(dir *os.File, depth int) error {
	for {
		removed := 0
		var failed error
		for {
			names, err := dir.Readdirnames(atATime)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			for _, name := range names {
				if !time.Now().Before(c.deadline) {
					return errMore
				}
				switch err := c.remove(dir, name, depth); {
				case errors.Is(err, errMore):
					return err
				case err != nil:
					failed = err
				default:
					removed++
				}
			}
		}
		if removed == 0 {
			return failed
		}
		// Entries may have been missed, as the directory changed while it was read.
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

// remove removes an entry of a directory.
func (c *clearing) remove(dir *os.File, name string, depth int) error {
	at := int(dir.Fd())
	err := unix.Unlinkat(at, name, 0)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
	}
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.ENOTEMPTY):
		return &os.PathError{Op: "remove", Path: name, Err: err}
	case depth == deepest:
		return c.moveUp(at, name)
	}
	child, device, err := openDirectory(dir, name)
	if err != nil {
		return err
	}
	defer child.Close() //nolint:errcheck // it was only read
	if device != c.device {
		return &os.PathError{Op: "remove", Path: name, Err: unix.EXDEV}
	}
	if err := c.empty(child, depth+1); err != nil {
		return err
	}
	if err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) &&
		!errors.Is(err, unix.ENOTEMPTY) { // somebody writes: it is met again
		return &os.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

// moveUp moves a directory to the top of the volume, where it is met again. Nobody can have guessed its name there.
func (c *clearing) moveUp(at int, name string) error {
	up := ".removed-" + strconv.FormatUint(rand.Uint64(), 36)
	if err := unix.Renameat2(at, name, int(c.volume.Fd()), up, unix.RENAME_NOREPLACE); err != nil &&
		!errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("moving %s up: %w", name, err)
	}
	return nil
}
