package hosts

import (
	"errors"
	"os"
	"path/filepath"
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
			failed = append(failed, os.RemoveAll(dir))
		}
	}
	return errors.Join(failed...)
}
