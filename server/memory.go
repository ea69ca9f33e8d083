package server

import (
	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/prometheus/procfs"
)

// availableMemory is how many bytes a process of this machine and of this
// cgroup could take now without others having less; 0 if that is not known.
func availableMemory() uint64 {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	info, err := fs.Meminfo()
	if err != nil || info.MemAvailableBytes == nil {
		return 0
	}
	limit, used := cgroupMemory()
	if limit == 0 {
		return *info.MemAvailableBytes
	}
	return min(*info.MemAvailableBytes, limit-min(used, limit))
}

// cgroupMemory is what the cgroup may have and has, less what of it are files
// that nobody reads. The limit is 0 if there is none.
func cgroupMemory() (limit, used uint64) {
	if cgroups.Mode() == cgroups.Unified {
		group, err := cgroup2.NestedGroupPath("")
		if err != nil {
			return 0, 0
		}
		m, err := cgroup2.Load(group)
		if err != nil {
			return 0, 0
		}
		s, err := m.Stat()
		if err != nil || s.GetMemory() == nil {
			return 0, 0
		}
		memory := s.GetMemory()
		return memory.GetUsageLimit(), memory.GetUsage() - min(memory.GetInactiveFile(), memory.GetUsage())
	}
	m, err := cgroup1.Load(cgroup1.NestedPath(""), cgroup1.WithHierarchy(memoryOnly))
	if err != nil {
		return 0, 0
	}
	s, err := m.Stat(cgroup1.IgnoreNotExist)
	if err != nil || s.GetMemory() == nil {
		return 0, 0
	}
	memory := s.GetMemory()
	usage := memory.GetUsage().GetUsage()
	return memory.GetHierarchicalMemoryLimit(), usage - min(memory.GetTotalInactiveFile(), usage)
}

// memoryOnly is the one hierarchy of cgroup v1 that is of interest.
func memoryOnly() ([]cgroup1.Subsystem, error) {
	all, err := cgroup1.Default()
	for _, s := range all {
		if s.Name() == cgroup1.Memory {
			return []cgroup1.Subsystem{s}, nil
		}
	}
	return nil, err
}
