package localstorage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/a4s-io/a4s/internal/joinapi"
)

const (
	// parentMode keeps people without rights on the node away from all
	// volumes; containers see a volume alone.
	parentMode = 0o700
	// volumeMode lets every user of the pods in: which ones write is theirs
	// to settle.
	volumeMode = 0o777
)

// locate checks the path of a volume, and splits it.
func locate(v joinapi.LocalVolume) (parent, name string, err error) {
	parent, name = filepath.Split(v.Path)
	if !filepath.IsAbs(v.Path) || filepath.Clean(v.Path) != v.Path || v.Name == "" ||
		!strings.HasPrefix(name, v.Name+"_") || strings.ContainsRune(v.Name, '/') {
		return "", "", fmt.Errorf("%q is no path for the volume %q", v.Path, v.Name)
	}
	return filepath.Clean(parent), name, nil
}

// create makes the directory of a volume. It may be there already.
func create(v joinapi.LocalVolume) error {
	parent, name, err := locate(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(parent, parentMode); err != nil {
		return fmt.Errorf("making the directory of all volumes: %w", err)
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return fmt.Errorf("opening the directory of all volumes: %w", err)
	}
	defer root.Close()
	if err := root.Mkdir(name, parentMode); err != nil {
		info, statErr := root.Lstat(name)
		if !errors.Is(err, os.ErrExist) || statErr != nil || !info.IsDir() {
			return fmt.Errorf("making %s: %w", v.Path, err)
		}
		return nil // of an earlier attempt, or used by now
	}
	if err := root.Chmod(name, volumeMode); err != nil { // whatever the umask
		return fmt.Errorf("opening %s to pods: %w", v.Path, err)
	}
	return nil
}

// remove removes the directory of a volume and all that is in it, until the
// deadline: then it returns errMore, and goes on the next time. It may be gone
// already.
func remove(v joinapi.LocalVolume, deadline time.Time) error {
	parent, name, err := locate(v)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the directory of all volumes: %w", err)
	}
	defer root.Close()
	real, err := filepath.EvalSymlinks(parent)
	if err != nil {
		return fmt.Errorf("resolving %s: %w", parent, err)
	}
	below := mountinfo.PrefixFilter(filepath.Join(real, name))
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		skip, stop = below(m)
		return skip && !isOf(m, name), stop
	})
	if err != nil {
		return fmt.Errorf("reading what is mounted: %w", err)
	}
	switch {
	case len(mounts) == 0:
	case isOf(mounts[0], name):
		return fmt.Errorf("it is mounted at %s: a pod has it", mounts[0].Mountpoint)
	default:
		return fmt.Errorf("something is mounted at %s; unmount it first", mounts[0].Mountpoint)
	}
	all, err := root.Open(".")
	if err != nil {
		return fmt.Errorf("opening the directory of all volumes: %w", err)
	}
	defer all.Close() //nolint:errcheck // it was only read
	if err := removeTree(all, name, deadline); err != nil {
		return fmt.Errorf("removing %s: %w", v.Path, err)
	}
	return nil
}

// isOf reports whether a mount shows a volume, or a directory in it, elsewhere: names of volumes are unique.
func isOf(m *mountinfo.Info, name string) bool {
	return slices.Contains(strings.Split(m.Root, "/"), name)
}
