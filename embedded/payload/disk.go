//go:build linux

package payload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/problem"
)

// precondition turns what is wrong with the file system into a *problem.Precondition
// and returns any other error as it is.
func precondition(dataDir string, err error) error {
	switch {
	case isErrno(err, syscall.ENOSPC, syscall.EDQUOT):
		return &problem.Precondition{
			What: fmt.Sprintf("data directory %s (--data-dir)", dataDir), Err: err,
			Fix: fmt.Sprintf("free some space (%s is available) or name a larger file system", available(dataDir)),
		}
	case isErrno(err, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.ENOTDIR, syscall.EIO):
		return &problem.Precondition{
			What: fmt.Sprintf("data directory %s (--data-dir)", dataDir), Err: err,
			Fix: "name a directory that root can write to",
		}
	}
	return err
}

// available says how much space is left where dir is.
func available(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "an unknown amount"
	}
	return fmt.Sprintf("%.1f MiB", float64(st.Bavail)*float64(st.Bsize)/(1<<20))
}

// Check refuses, without changing anything, a data directory whose file system
// the payload could not be run from. The directory need not exist yet.
func Check(dataDir string) error {
	at := dataDir
	for {
		_, err := os.Stat(at)
		if !errors.Is(err, os.ErrNotExist) || filepath.Dir(at) == at {
			return checkExec(dataDir, at)
		}
		at = filepath.Dir(at)
	}
}

// checkExec refuses a file system whose programs cannot be run: the shim would
// otherwise fail much later, once for every pod.
func checkExec(dataDir, root string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil {
		return precondition(dataDir, err)
	}
	if st.Flags&unix.ST_NOEXEC != 0 {
		return &problem.Precondition{
			What: fmt.Sprintf("data directory %s (--data-dir)", dataDir),
			Err:  errors.New("its file system is mounted noexec"),
			Fix:  "mount it without that option or name another directory",
		}
	}
	return nil
}
