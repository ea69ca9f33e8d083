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
	// nest directories without a limit, and descriptors have one. Where that cannot be, as out of a
	// subvolume, it goes on to deepestUnmoved.
	deepest        = 32
	deepestUnmoved = 1000
	// atATime is how many names of a directory are read at a time.
	atATime = 512
)

// errMore says that a volume has more than could be removed by the deadline.
var errMore = errors.New("there is more to remove")

// clearing removes what is in a volume. It follows no link. Nothing is mounted there: who calls it has looked.
type clearing struct {
	volume   *os.File
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
	if c.volume, err = openDirectory(parent, name); err != nil {
		return err
	}
	defer c.volume.Close() //nolint:errcheck // it was only read
	if err := c.empty(c.volume, 0); err != nil {
		return err
	}
	if err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		if notEmpty(err) {
			return errMore // somebody writes
		}
		return &os.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

// openDirectory opens a directory of another one, which is no link.
func openDirectory(parent *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(parent.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// notEmpty reports whether a directory was not removed for what is in it.
func notEmpty(err error) bool { return errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) }

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
	case !notEmpty(err):
		return &os.PathError{Op: "remove", Path: name, Err: err}
	case depth >= deepest:
		if err := c.moveUp(at, name); !errors.Is(err, unix.EXDEV) || depth == deepestUnmoved {
			return err
		}
	}
	child, err := openDirectory(dir, name)
	if err != nil {
		return err
	}
	defer child.Close() //nolint:errcheck // it was only read
	if err := c.empty(child, depth+1); err != nil {
		return err
	}
	if err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) &&
		!notEmpty(err) { // somebody writes: it is met again
		return &os.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

// moveUp moves a directory to the top of the volume, where it is met again. Nobody can have guessed its name there.
func (c *clearing) moveUp(at int, name string) error {
	up := ".removed-" + strconv.FormatUint(rand.Uint64(), 36)
	if err := unix.Renameat(at, name, int(c.volume.Fd()), up); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("moving %s up: %w", name, err)
	}
	return nil
}
