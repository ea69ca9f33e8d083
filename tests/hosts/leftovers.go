package hosts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// removeLeftovers removes what a run that was killed could not: the kernel
// ended its processes, which leaves cgroups, links and directories.
func removeLeftovers() error {
	failed := []error{removeCgroups(func(name string) bool { return strings.HasPrefix(name, Prefix) })}
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, link := range links {
		if name := link.Attrs().Name; strings.HasPrefix(name, linkPrefix) {
			failed = append(failed, deleteLink(name))
		}
	}
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), Prefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if filepath.Base(dir) != Prefix+"lock" {
			failed = append(failed, removeDir(dir))
		}
	}
	return errors.Join(failed...)
}

// mountPointsFile lists, in the directory of a lab, the directories that the
// lab made on the machine for its hosts to cover with their own.
const mountPointsFile = "mount-points"

// makeMountPoints makes what is missing of the private directories. They
// belong to the lab: removing one would unmount it in every host.
func makeMountPoints(lab string) error {
	var made []string
	for _, dir := range privateDirs() {
		for _, d := range []string{filepath.Dir(dir), dir} {
			err := os.Mkdir(d, 0o755)
			if errors.Is(err, os.ErrExist) {
				continue
			}
			if err != nil {
				return err
			}
			made = append(made, d)
			// At once: the next line may be the last of a killed run.
			if err := os.WriteFile(filepath.Join(lab, mountPointsFile), []byte(strings.Join(made, "\n")),
				0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeDir removes the directory of a lab whose hosts are gone, and the mount
// points that it lists unless somebody uses them now.
func removeDir(lab string) error {
	made, err := os.ReadFile(filepath.Join(lab, mountPointsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, dir := range slices.Backward(strings.Fields(string(made))) {
		_ = os.Remove(dir)
	}
	return os.RemoveAll(lab)
}
