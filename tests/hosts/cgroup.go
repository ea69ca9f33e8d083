package hosts

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hierarchy is one mounted cgroup hierarchy.
type hierarchy struct {
	// Dir is its mount point.
	Dir string
	// Type is "cgroup" or "cgroup2".
	Type string
	// Options of the mount that name the controllers of a version 1 one.
	Options string
}

// hierarchies returns the cgroup hierarchies that are mounted whole below
// /sys/fs/cgroup.
func hierarchies() ([]hierarchy, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []hierarchy
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		before, after, ok := strings.Cut(scan.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		if dir := left[4]; left[3] == "/" && strings.HasPrefix(right[0], "cgroup") &&
			strings.HasPrefix(dir, "/sys/fs/cgroup") {
			h := hierarchy{Dir: dir, Type: right[0]}
			if h.Type == "cgroup" {
				var options []string
				for o := range strings.SplitSeq(right[2], ",") {
					if o != "rw" && o != "ro" && !strings.HasPrefix(o, "release_agent=") {
						options = append(options, o)
					}
				}
				h.Options = strings.Join(options, ",")
			}
			all = append(all, h)
		}
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("no cgroup hierarchy is mounted below /sys/fs/cgroup")
	}
	return all, nil
}

// makeCgroup makes the cgroup name at the top of every hierarchy.
func makeCgroup(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		dir := filepath.Join(h.Dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		// A new cpuset is empty, and no process can enter it.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if h.Type != "cgroup" {
				break
			}
			value, err := os.ReadFile(filepath.Join(h.Dir, file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, file), value, 0o644)
			}
			if err != nil {
				return err
			}
		}
		if h.Type == "cgroup2" {
			if err := delegate(h.Dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// delegate lets the children of a version 2 cgroup use every controller that
// it has itself.
func delegate(dir string) error {
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for c := range strings.FieldsSeq(string(controllers)) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0o644); err != nil {
			return fmt.Errorf("delegating cgroup controller %s: %w", c, err)
		}
	}
	return nil
}

// removeCgroups kills what is left in the cgroups whose name at the top of a
// hierarchy match accepts, and removes them.
func removeCgroups(match func(name string) bool) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	var failed []error
	for _, h := range all {
		entries, err := os.ReadDir(h.Dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() && match(e.Name()) {
				failed = append(failed, removeCgroup(filepath.Join(h.Dir, e.Name())))
			}
		}
	}
	return errors.Join(failed...)
}

// removeCgroup removes a cgroup and those below it. A killed process leaves
// its cgroup only some time after the signal, so it tries for a while.
func removeCgroup(top string) error {
	deadline := time.Now().Add(time.Minute)
	for {
		var dirs []string
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		for i := len(dirs) - 1; err == nil && i >= 0; i-- {
			killMembers(dirs[i])
			if e := unix.Rmdir(dirs[i]); e != nil && !errors.Is(e, fs.ErrNotExist) {
				err = fmt.Errorf("removing cgroup %s: %w", dirs[i], e)
			}
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func killMembers(dir string) {
	members, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return
	}
	for line := range strings.FieldsSeq(string(members)) {
		if pid, err := strconv.Atoi(line); err == nil && pid > 0 && pid != os.Getpid() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}
