//go:build linux

package payload

import (
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/instance"
)

// prune removes the versions below root that nothing runs from, except those of keep.
// A version that cannot be removed is only worth a warning.
func prune(log *logrus.Entry, root string, keep ...string) {
	entries, err := os.ReadDir(root)
	if err != nil {
		log.Warnf("Looking for superseded versions: %v", err)
		return
	}
	var old []string
	for _, e := range entries {
		sum, err := hex.DecodeString(e.Name())
		if err == nil && len(sum) == 32 && e.IsDir() && !slices.Contains(keep, e.Name()) {
			old = append(old, filepath.Join(root, e.Name()))
		}
	}
	if len(old) == 0 {
		return
	}
	running, err := executables()
	if err != nil {
		log.Warnf("Superseded versions are kept: %v", err)
		return
	}
	for _, dir := range old {
		used, err := runsFrom(running, dir)
		switch {
		case err != nil:
			log.Warnf("The superseded version %s is kept: %v", dir, err)
		case used:
			log.Debugf("The superseded version %s is kept: a process runs from it", dir)
		default:
			if err := os.RemoveAll(dir); err != nil {
				log.Warnf("Removing the superseded version %s: %v", dir, err)
				continue
			}
			log.Infof("Removed the superseded version %s", dir)
		}
	}
}

// executable is the file that a process runs.
type executable struct {
	process string // its directory in /proc
	info    fs.FileInfo
	// path is as the process's mount namespace has it, with " (deleted)"
	// behind it when the file has been replaced.
	path string
}

// below reports whether the executable is, or was, a file of dir, whose files
// are given. File identity finds it when the data directory is behind a bind
// mount, the path finds it when the file was replaced by a repair. The path of what runs in a
// container is one in the container.
func (e executable) below(dir string, files []fs.FileInfo) bool {
	if strings.HasPrefix(e.path, dir+"/") && !instance.Elsewhere(e.process, dir) {
		return true
	}
	return slices.ContainsFunc(files, func(f fs.FileInfo) bool { return os.SameFile(e.info, f) })
}

// executables lists what runs. A process that has no executable or has just
// ended is skipped.
func executables() ([]executable, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []executable
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		process := filepath.Join("/proc", e.Name())
		link := filepath.Join(process, "exe")
		info, err := os.Stat(link)
		if err != nil {
			continue
		}
		if target, err := os.Readlink(link); err == nil {
			found = append(found, executable{process: process, info: info, path: target})
		}
	}
	return found, nil
}

// runsFrom reports whether one of the running executables belongs to dir.
func runsFrom(running []executable, dir string) (bool, error) {
	var files []fs.FileInfo
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		fi, err := d.Info()
		files = append(files, fi)
		return err
	})
	if err != nil {
		return false, err
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(running, func(e executable) bool { return e.below(resolved, files) }), nil
}
