package atomicfile

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/internal/problem"
)

// Write replaces the file at path with data and gives it mode, whatever the
// umask is. The directory must exist.
func Write(path string, data []byte, mode fs.FileMode) error {
	return WriteGroup(path, data, mode, -1)
}

// Update is Write, unless the file has that content already.
func Update(path string, data []byte, mode fs.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return Write(path, data, mode)
}

// WriteGroup is Write with the numeric group that will own the file; -1 means
// the group that a new file gets by itself.
func WriteGroup(path string, data []byte, mode fs.FileMode, gid int) (err error) {
	dir := filepath.Dir(path)
	defer func() {
		if err != nil {
			err = &problem.Precondition{What: "writing " + path, Err: err,
				Fix: "make sure that the disk has room and that the directory exists and is writable"}
		}
	}()
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".tmp-") // created with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // reports only that it is closed already
			_ = os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(data); err != nil {
		return err
	}
	// The group goes first: a wide mode must never apply to the wrong group.
	if gid >= 0 {
		if err := f.Chown(-1, gid); err != nil {
			return err
		}
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// SyncDir makes the names in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		_ = d.Close()
		return err
	}
	return d.Close()
}
