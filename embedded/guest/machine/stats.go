//go:build linux

package machine

import (
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// Stats implements server.Machine.
func (m *Machine) Stats(ids []string) (protocol.Stats, error) {
	s := protocol.Stats{At: time.Now(), CPU: cpuStats(cgroupRoot), Memory: memoryStats(podCgroup)}
	info := keyed("/proc/meminfo")
	s.Memory.Limit = info["MemTotal"] << 10
	s.Memory.Available = info["MemAvailable"] << 10
	s.Memory.Usage = (info["MemTotal"] - info["MemFree"]) << 10
	s.Memory.WorkingSet = s.Memory.Limit - s.Memory.Available
	s.Memory.RSS = info["AnonPages"] << 10
	for _, id := range ids {
		c := protocol.ContainerStats{ID: id, CPU: cpuStats(cgroupOf(id)), Memory: memoryStats(cgroupOf(id))}
		c.Pids = number(filepath.Join(cgroupOf(id), "pids.current"))
		s.Pids += c.Pids
		c.Root = fsStats(rootOf(id))
		s.Containers = append(s.Containers, c)
	}
	links, err := netlink.LinkList()
	if err != nil {
		return s, err
	}
	for _, l := range links {
		a := l.Attrs()
		if a.Statistics == nil || a.Name == "lo" {
			continue
		}
		n := a.Statistics
		s.Networks = append(s.Networks, protocol.NetworkStats{
			Name:    a.Name,
			RxBytes: n.RxBytes, RxPackets: n.RxPackets, RxErrors: n.RxErrors, RxDropped: n.RxDropped,
			TxBytes: n.TxBytes, TxPackets: n.TxPackets, TxErrors: n.TxErrors, TxDropped: n.TxDropped,
		})
	}
	return s, nil
}

func cpuStats(dir string) protocol.CPUStats {
	v := keyed(filepath.Join(dir, "cpu.stat"))
	us := func(name string) time.Duration { return time.Duration(v[name]) * time.Microsecond }
	return protocol.CPUStats{Usage: us("usage_usec"), User: us("user_usec"), System: us("system_usec")}
}

func memoryStats(dir string) protocol.MemoryStats {
	v := keyed(filepath.Join(dir, "memory.stat"))
	s := protocol.MemoryStats{
		Usage: number(filepath.Join(dir, "memory.current")), Limit: number(filepath.Join(dir, "memory.max")),
		RSS: v["anon"], PageFaults: v["pgfault"], MajorPageFaults: v["pgmajfault"],
	}
	s.WorkingSet = s.Usage - min(s.Usage, v["inactive_file"])
	if s.Limit > 0 {
		s.Available = s.Limit - min(s.Limit, s.WorkingSet)
	}
	return s
}

func fsStats(path string) protocol.FSStats {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return protocol.FSStats{}
	}
	size := uint64(st.Bsize)
	return protocol.FSStats{UsedBytes: (st.Blocks - st.Bfree) * size, TotalBytes: st.Blocks * size,
		UsedInodes: st.Files - st.Ffree}
}
