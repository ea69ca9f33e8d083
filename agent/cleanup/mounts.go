package cleanup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is one line of mountinfo.
type mount struct {
	id, parent int
	device     string // major:minor
	target     string
}

// mounts reads the mounts of this process's namespace, in mount order.
func mounts(proc string) ([]mount, error) {
	data, err := os.ReadFile(filepath.Join(proc, "self", "mountinfo"))
	if err != nil {
		return nil, err
	}
	return parseMountinfo(string(data))
}

func parseMountinfo(text string) ([]mount, error) {
	var out []mount
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 6 {
			return nil, fmt.Errorf("mountinfo line %q has %d fields", strings.TrimSpace(line), len(f))
		}
		id, err := strconv.Atoi(f[0])
		if err != nil {
			return nil, fmt.Errorf("mountinfo line %q: %w", strings.TrimSpace(line), err)
		}
		parent, err := strconv.Atoi(f[1])
		if err != nil {
			return nil, fmt.Errorf("mountinfo line %q: %w", strings.TrimSpace(line), err)
		}
		out = append(out, mount{id: id, parent: parent, device: f[2], target: unescape(f[4])})
	}
	return out, nil
}

// unescape undoes the kernel's octal escapes of blanks and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// ownMounts picks what a4s mounted, the last one first. A disk that the
// administrator mounted at one of our directories stays.
func (k *killer) ownMounts(all []mount) []mount {
	devices := map[int]string{}
	for _, m := range all {
		devices[m.id] = m.device
	}
	var out []mount
	for i := len(all) - 1; i >= 0; i-- {
		m := all[i]
		for _, dir := range k.mountDirs() {
			if !below(m.target, dir) {
				continue
			}
			// The directory itself counts only as a bind mount of itself.
			if m.target != dir || devices[m.parent] == m.device {
				out = append(out, m)
			}
			break
		}
	}
	return out
}

func (k *killer) mountDirs() []string {
	agent := filepath.Join(k.DataDir, "agent")
	return []string{k.RunDir, filepath.Join(agent, "kubelet"), filepath.Join(agent, "containerd")}
}

func (k *killer) unmountAll(ctx context.Context) error {
	removed := 0
	defer func() { k.report(removed, "unmounted %d mounts", removed) }()
	// Mounts that propagate change the list while it is worked through, and
	// one target can be mounted over several times.
	for range 5 {
		all, err := mounts(k.Proc)
		if err != nil {
			return err
		}
		own := k.ownMounts(all)
		if len(own) == 0 {
			return nil
		}
		var errs []error
		progress := false
		for _, m := range own {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			err := unix.Unmount(m.target, unix.UMOUNT_NOFOLLOW)
			if errors.Is(err, unix.EBUSY) {
				err = unix.Unmount(m.target, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
			}
			switch {
			case err == nil:
				removed++
				progress = true
			case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
				// went with another one
			default:
				errs = append(errs, fmt.Errorf("%s: %w", m.target, err))
			}
		}
		if !progress {
			return errors.Join(errs...)
		}
	}
	return errors.New("new mounts appear as fast as they are removed")
}

// removeAll deletes a directory tree unless something is mounted in it: then
// the files are not ours.
func (k *killer) removeAll(dir string) (bool, error) {
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	all, err := mounts(k.Proc)
	if err != nil {
		return false, err
	}
	for _, m := range all {
		if below(m.target, dir) && m.target != dir {
			return false, fmt.Errorf("%s is still mounted, so %s was left", m.target, dir)
		}
	}
	if err := os.RemoveAll(dir); err == nil {
		return true, nil
	}
	// A mount point itself cannot go, its content can.
	removed := false
	var errs []error
	for _, name := range names(dir) {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			errs = append(errs, err)
		} else {
			removed = true
		}
	}
	return removed, errors.Join(errs...)
}
