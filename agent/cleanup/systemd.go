package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// stopSlices ends the units of cgroups that are gone. systemd does not notice
// that the cgroup of a slice went, and makes it again with its next reload.
func (k *killer) stopSlices(ctx context.Context) error {
	if _, err := os.Stat(k.Systemd); err != nil {
		return nil // the units are someone else's, or there are none
	}
	var units []string
	for _, dir := range k.sliceDirs {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(dir, ".slice") {
			units = append(units, filepath.Base(dir))
		}
	}
	if k.CgroupRoot == "" {
		left := k.cgroupTrees()
		for _, name := range podCgroups {
			there := slices.ContainsFunc(left, func(dir string) bool { return filepath.Base(dir) == name })
			if !there && strings.HasSuffix(name, ".slice") {
				units = append(units, name) // and all below it
			}
		}
	}
	if len(units) == 0 {
		return nil
	}
	slices.Sort(units)
	units = slices.Compact(units)
	out, err := exec.CommandContext(ctx, "systemctl", append([]string{"stop", "--"}, units...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl stop %s: %w: %s", strings.Join(units, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
