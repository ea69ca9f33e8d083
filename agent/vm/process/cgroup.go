package process

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"
	"golang.org/x/sys/unix"
)

// Cgroup is a control group of the machine, version 1 or 2.
type Cgroup struct {
	m       cgroups.Manager
	systemd bool
	limits  Limits
}

// Limits are those of a control group beside those of its parents.
type Limits struct {
	// CPUQuota is how many microseconds of CPU time its processes may use in
	// each CPUPeriod; 0 is no limit.
	CPUQuota, CPUPeriod int64
	// Memory is how many bytes they may take together; 0 is no limit.
	Memory int64
}

// NewCgroup returns the control group name below parent, which is what the
// kubelet calls it: a path, or the name of a slice if systemd manages control
// groups. Nothing is made before the first Add.
func NewCgroup(parent, name string, systemd bool, limits Limits) (*Cgroup, error) {
	// systemd would forbid all devices that are not named.
	c := &cgroups.Cgroup{Name: name, Parent: parent, Systemd: systemd,
		Resources: &cgroups.Resources{SkipDevices: systemd}}
	if systemd {
		c.ScopePrefix = "a4s-vm"
	}
	m, err := manager.New(c)
	if err != nil {
		return nil, fmt.Errorf("control group %s below %s: %w", name, parent, err)
	}
	return &Cgroup{m: m, systemd: systemd, limits: limits}, nil
}

// Add makes the control group if needed and moves the process into it, with
// all its threads and children.
func (c *Cgroup) Add(p *Process) error {
	if err := c.add(p.pid); err != nil {
		return fmt.Errorf("moving process %d into its control group: %w", p.pid, err)
	}
	if c.limits == (Limits{}) {
		return nil
	}
	err := c.m.Set(&cgroups.Resources{SkipDevices: true, CpuQuota: c.limits.CPUQuota,
		CpuPeriod: uint64(c.limits.CPUPeriod), Memory: c.limits.Memory})
	if err != nil {
		return fmt.Errorf("limits of a control group: %w", err)
	}
	return nil
}

func (c *Cgroup) add(pid int) error {
	join := c.m.Apply
	if c.systemd && c.m.Exists() { // it would make the scope again
		join = func(pid int) error { return c.m.AddPid("", pid) }
	}
	if err := join(pid); err != nil {
		return err
	}
	// What is started from now on is in it already.
	started, err := children(pid)
	if err != nil {
		return err
	}
	for _, child := range started {
		if err := c.add(child); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// PIDs are the processes in it and below it, in any hierarchy.
func (c *Cgroup) PIDs() ([]int, error) {
	found := map[int]bool{}
	for _, path := range c.m.GetPaths() {
		pids, err := cgroups.GetAllPids(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, pid := range pids {
			found[pid] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// Remove removes the control group; no process may be in it. One that does not
// exist is no error.
func (c *Cgroup) Remove() error { return c.m.Destroy() }
