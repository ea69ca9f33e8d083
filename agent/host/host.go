package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Info is what the node's parts need to know about the machine.
type Info struct {
	// CgroupV2 is true when only the unified hierarchy is mounted.
	CgroupV2 bool
	// Systemd is true when systemd is the init system.
	Systemd bool
	// CanLowerOOMScore is true when this process may give a child a lower
	// OOM score than its own (CAP_SYS_RESOURCE).
	CanLowerOOMScore bool
	// MaxOpenFiles is the hard limit of open files of this process.
	MaxOpenFiles uint64
}

// SystemdCgroups says whether systemd must own the cgroups of pods. It must
// where it manages the unified hierarchy; on cgroup v1 it would fight over
// the name=systemd hierarchy only, and cgroupfs works everywhere.
func (i Info) SystemdCgroups() bool { return i.CgroupV2 && i.Systemd }

// Probe inspects the machine.
func Probe() (Info, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return Info{}, fmt.Errorf("reading the limit of open files: %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &fs); err != nil {
		return Info{}, fmt.Errorf("reading the cgroup file system at /sys/fs/cgroup: %w", err)
	}
	info, err := probeFiles("/")
	info.CgroupV2 = fs.Type == unix.CGROUP2_SUPER_MAGIC
	info.MaxOpenFiles = limit.Max
	return info, err
}

func probeFiles(root string) (Info, error) {
	var info Info
	// The test that sd_booted(3) documents.
	if st, err := os.Lstat(filepath.Join(root, "run/systemd/system")); err == nil {
		info.Systemd = st.IsDir()
	}
	status := filepath.Join(root, "proc/self/status")
	data, err := os.ReadFile(status)
	if err != nil {
		return info, fmt.Errorf("reading the capabilities of this process: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		value, ok := strings.CutPrefix(line, "CapEff:")
		if !ok {
			continue
		}
		caps, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil {
			return info, fmt.Errorf("%s: capabilities %q: %w", status, strings.TrimSpace(value), err)
		}
		info.CanLowerOOMScore = caps&(1<<unix.CAP_SYS_RESOURCE) != 0
		return info, nil
	}
	return info, fmt.Errorf("%s: no line CapEff", status)
}
