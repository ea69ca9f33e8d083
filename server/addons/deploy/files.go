package deploy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// skipSuffix behind the name of a file has the file ignored.
	skipSuffix = ".skip"
	// settle is for how long a file has to be as it is: it may be being
	// written.
	settle = time.Second
	// maxFile bounds what is read of a file.
	maxFile = 16 << 20
)

// stamp changes whenever a file may have changed: the kernel sets the time of
// change, which no tool can put back.
type stamp struct {
	inode, device    uint64
	size             int64
	modified, change time.Time
}

// entry is a manifest in the directory.
type entry struct {
	path  string // in the directory, with slashes
	stamp stamp
	err   error // why it cannot be looked at
}

// settled reports whether nobody has written to the file for a while.
func (e entry) settled(now time.Time) bool {
	age := now.Sub(e.stamp.modified)
	return age < 0 || age >= settle // a time in the future says nothing
}

// list finds the manifests in a directory and its subdirectories, in the order
// of their names, and the directories.
func list(root string) (files []entry, dirs []string, err error) {
	skip := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && path == root:
			return err
		case errors.Is(err, fs.ErrNotExist):
			return nil // deleted just now
		case path != root && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		rel, relErr := filepath.Rel(root, path)
		if relErr != nil {
			return relErr
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if err != nil {
				files = append(files, entry{path: rel, err: err})
				return fs.SkipDir
			}
			dirs = append(dirs, path)
			return nil
		}
		if name, ok := strings.CutSuffix(rel, skipSuffix); ok {
			skip[name] = true
			return nil
		}
		if !isManifest(rel) {
			return nil
		}
		e := entry{path: rel}
		e.stamp, e.err = stampOf(path)
		if errors.Is(e.err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(e.err, errNoFile) {
			files = append(files, e)
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("looking for manifests: %w", err)
	}
	kept := files[:0]
	for _, e := range files {
		if !skip[e.path] {
			kept = append(kept, e)
		}
	}
	return kept, dirs, nil
}

// isManifest tells by the name whether a file is a manifest.
func isManifest(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// skipped reports whether a file of the directory is to be ignored.
func skipped(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name+skipSuffix))
	return err == nil
}

var errNoFile = errors.New("it is no file")

func stampOf(path string) (stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}, err
	}
	if !info.Mode().IsRegular() {
		return stamp{}, errNoFile
	}
	s := stamp{size: info.Size(), modified: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode, s.device = sys.Ino, sys.Dev
		s.change = time.Unix(sys.Ctim.Unix())
	}
	return s, nil
}

// readFile reads a manifest.
func readFile(path string) (text []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("the file is larger than %d MiB", maxFile>>20)
	}
	return text, err
}
