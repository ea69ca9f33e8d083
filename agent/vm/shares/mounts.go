package shares

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// prepare makes the share's directory: a mount of its own that the guest
// cannot write to, whose changes virtiofsd sees in its mount namespace.
func prepare(dir string) error {
	points, shared := filepath.Join(dir, pointsDir), filepath.Join(dir, sharedDir)
	for _, d := range []string{points, shared} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, points, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	attributes := &unix.MountAttr{Propagation: unix.MS_PRIVATE, Attr_set: unix.MOUNT_ATTR_RDONLY}
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, attributes)
	if err == nil {
		err = unix.MoveMount(tree, "", unix.AT_FDCWD, shared, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err == nil {
		err = unix.Mount("", shared, "", unix.MS_SHARED, "")
	}
	if err := errors.Join(err, unix.Close(tree)); err != nil {
		return fmt.Errorf("mounting %s: %w", shared, err)
	}
	return nil
}

// mount is one line of mountinfo.
type mount struct {
	id, parent int
	target     string
}

func mounts() ([]mount, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var all []mount
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 6 {
			return nil, fmt.Errorf("mountinfo line %q has %d fields", strings.TrimSpace(line), len(f))
		}
		id, err1 := strconv.Atoi(f[0])
		parent, err2 := strconv.Atoi(f[1])
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("mountinfo line %q: %w", strings.TrimSpace(line), err)
		}
		all = append(all, mount{id, parent, unescape.Replace(f[4])})
	}
	return all, nil
}

// unescape undoes what the kernel does to blanks and backslashes.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// Mounts returns what is mounted at dir and below, the last one first.
func Mounts(dir string) ([]string, error) {
	all, err := mounts()
	if err != nil {
		return nil, err
	}
	var targets []string
	for _, m := range slices.Backward(all) {
		if within(m.target, dir) {
			targets = append(targets, m.target)
		}
	}
	return targets, nil
}

// unmountBelow unmounts what is at path and below.
func unmountBelow(path string) error {
	// One may hide another, and what propagates changes the list.
	for range 100 {
		targets, err := Mounts(path)
		if err != nil || len(targets) == 0 {
			return err
		}
		for _, target := range targets {
			err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
			if errors.Is(err, unix.EBUSY) { // the guest knows files in it
				err = unix.Unmount(target, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
			}
			if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("unmounting %s: %w", target, err)
			}
		}
	}
	return fmt.Errorf("%s: new mounts appear as fast as they are removed", path)
}

// List returns the names of what was added to the share of the sandbox whose
// directory is dir.
func List(dir string) ([]string, error) {
	all, err := mounts()
	if err != nil {
		return nil, err
	}
	shared := filepath.Join(dir, sharedDir)
	root := slices.IndexFunc(all, func(m mount) bool { return m.target == shared })
	if root < 0 {
		return nil, nil
	}
	var names []string
	for _, m := range all {
		if m.parent == all[root].id {
			names = append(names, strings.TrimPrefix(m.target, shared+"/"))
		}
	}
	slices.Sort(names)
	return names, nil
}
