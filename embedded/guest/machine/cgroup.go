//go:build linux

package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
	"github.com/a4s-io/a4s/embedded/guest/server"
)

const (
	cgroupRoot = "/sys/fs/cgroup"
	podCgroup  = cgroupRoot + "/pod"
)

// startCgroups makes the control group whose children are the containers'.
func startCgroups() error {
	if err := os.MkdirAll(podCgroup, 0o755); err != nil {
		return err
	}
	for _, dir := range []string{cgroupRoot, podCgroup} {
		// One by one: a kernel may lack one.
		for _, controller := range []string{"cpu", "memory", "pids", "io"} {
			if err := writeFile(filepath.Join(dir, "cgroup.subtree_control"), "+"+controller); err != nil &&
				controller != "io" {
				return fmt.Errorf("controller %s: %w", controller, err)
			}
		}
	}
	return nil
}

// writeFile writes to a file that is there.
func writeFile(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func cgroupOf(id string) string { return filepath.Join(podCgroup, id) }

// makeCgroup makes a container's control group with its limits.
func makeCgroup(id string, r protocol.Resources) error {
	dir := cgroupOf(id)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	// A container that is out of memory ends as a whole, as Kubernetes has it.
	if err := writeFile(filepath.Join(dir, "memory.oom.group"), "1"); err != nil {
		return err
	}
	return limit(id, r)
}

// limit sets the limits that are not zero.
func limit(id string, r protocol.Resources) error {
	values := map[string]string{}
	set := func(name string, v int64) {
		switch {
		case v > 0:
			values[name] = strconv.FormatInt(v, 10)
		case v < 0:
			values[name] = "max"
		}
	}
	set("memory.max", r.MemoryLimit)
	set("pids.max", r.PidsLimit)
	if r.CPUQuota != 0 {
		period := r.CPUPeriod
		if period == 0 {
			period = 100_000
		}
		set("cpu.max", r.CPUQuota)
		values["cpu.max"] += " " + strconv.FormatInt(period, 10)
	}
	if r.CPUShares > 0 {
		values["cpu.weight"] = strconv.FormatInt(weight(r.CPUShares), 10)
	}
	for name, value := range values {
		if err := writeFile(filepath.Join(cgroupOf(id), name), value); err != nil {
			return server.Errorf(protocol.CodeInvalid, "setting %s of container %s to %s: %w", name, id, value, err)
		}
	}
	return nil
}

// weight converts CPU shares (2 to 262144) to the weight (1 to 10000) that
// Kubernetes has for them.
func weight(shares int64) int64 {
	shares = min(max(shares, 2), 262144)
	return 1 + (shares-2)*9999/262142
}

// removeCgroup removes a control group and those that the container made in it.
func removeCgroup(id string) error {
	var dirs []string
	err := filepath.WalkDir(cgroupOf(id), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return ignoreMissing(err)
	})
	if err != nil {
		return err
	}
	slices.Reverse(dirs)
	for _, dir := range dirs {
		if err := ignoreMissing(unix.Rmdir(dir)); err != nil {
			return fmt.Errorf("removing %s: %w", dir, err)
		}
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Kill implements server.Machine.
func (m *Machine) Kill(id string, signal int) error {
	if signal == int(unix.SIGKILL) {
		return ignoreMissing(writeFile(filepath.Join(cgroupOf(id), "cgroup.kill"), "1"))
	}
	return filepath.WalkDir(cgroupOf(id), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return ignoreMissing(err)
		}
		pids, err := readTrimmed(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return ignoreMissing(err)
		}
		for pid := range strings.FieldsSeq(pids) {
			n, err := strconv.Atoi(pid)
			if err != nil {
				return err
			}
			if err := unix.Kill(n, unix.Signal(signal)); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("signal %d to process %d: %w", signal, n, err)
			}
		}
		return nil
	})
}

// Update implements server.Machine.
func (m *Machine) Update(id string, r protocol.Resources) error { return limit(id, r) }

// keyed reads a file of keys and numbers.
func keyed(path string) map[string]uint64 {
	text, err := readTrimmed(path)
	if err != nil {
		return nil
	}
	values := map[string]uint64{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 2 {
			values[strings.TrimSuffix(f[0], ":")], _ = strconv.ParseUint(f[1], 10, 64)
		}
	}
	return values
}

// number reads a file of one number; "max" and what is missing are zero.
func number(path string) uint64 {
	text, err := readTrimmed(path)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}

// ranOutOfMemory reports whether the kernel ended processes of the container
// for want of memory.
func ranOutOfMemory(id string) bool {
	return keyed(filepath.Join(cgroupOf(id), "memory.events"))["oom_kill"] > 0
}
