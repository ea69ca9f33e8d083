package checkconfig

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func (c *check) capabilities() {
	status, err := c.read("/proc/self/status")
	if err != nil {
		c.add(Warn, "capabilities", "", "unknown: %v", err)
		return
	}
	var effective uint64
	for line := range strings.Lines(status) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			effective, err = strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
		}
	}
	if err != nil {
		c.add(Warn, "capabilities", "", "unknown: %v", err)
		return
	}
	for _, want := range []struct {
		bit   uint
		name  string
		level Level
		found string
	}{
		{21, "CAP_SYS_ADMIN", Fail, "missing; mounts and namespaces need it"},
		{12, "CAP_NET_ADMIN", Fail, "missing; the pod network needs it"},
		{24, "CAP_SYS_RESOURCE", Warn, "missing; a4s cannot protect itself and important pods from the OOM killer"},
	} {
		if effective&(1<<want.bit) != 0 {
			c.add(Pass, want.name, "", "present")
		} else {
			c.add(want.level, want.name, "run a4s as root outside of a restricted container", "%s", want.found)
		}
	}
}

func (c *check) cgroups() {
	const enable = "enable it on the kernel command line"
	if text, err := c.read("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		c.add(Pass, "cgroup version", "", "2")
		c.controllers(strings.Fields(text), []string{"cpu", "cpuset", "memory", "pids"}, enable)
		return
	}
	mounts, err := c.read("/proc/mounts")
	if err != nil {
		c.add(Fail, "cgroup version", "mount /proc", "unknown: %v", err)
		return
	}
	var mounted []string
	for line := range strings.Lines(mounts) {
		if f := strings.Fields(line); len(f) >= 4 && f[2] == "cgroup" {
			mounted = append(mounted, strings.Split(f[3], ",")...)
		}
	}
	if len(mounted) == 0 {
		c.add(Fail, "cgroup version", "mount the cgroup2 file system at /sys/fs/cgroup",
			"no cgroup file system is mounted")
		return
	}
	c.add(Warn, "cgroup version", "boot with systemd.unified_cgroup_hierarchy=1 to use version 2",
		"1; it works, but Kubernetes is about to drop it")
	c.controllers(mounted, []string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "pids"},
		enable+" and mount it below /sys/fs/cgroup")
}

func (c *check) controllers(have, want []string, fix string) {
	var missing []string
	for _, w := range want {
		if !slices.Contains(have, w) {
			missing = append(missing, w)
		}
	}
	if len(missing) > 0 {
		c.add(Fail, "cgroup controllers", fix, "missing: %s", strings.Join(missing, ", "))
		return
	}
	c.add(Pass, "cgroup controllers", "", "%s", strings.Join(want, ", "))
}

func (c *check) swap() {
	text, err := c.read("/proc/swaps")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	switch {
	case err != nil:
		c.add(Pass, "swap", "", "not supported by the kernel")
	case len(lines) > 1:
		c.add(Warn, "swap", "turn it off with swapoff -a and in /etc/fstab",
			"%d in use; memory limits of pods are less exact", len(lines)-1)
	default:
		c.add(Pass, "swap", "", "off")
	}
}

// feature is a group of kernel options that one thing needs.
type feature struct {
	name    string
	options []string
	level   Level // if one of options is missing
	without string
	// module is what /sys/module or /proc/filesystems show if the
	// configuration of the kernel is unknown.
	module string
}

func features() []feature {
	return []feature{
		{name: "namespaces", options: []string{"NAMESPACES", "UTS_NS", "IPC_NS", "PID_NS", "NET_NS"}, level: Fail,
			without: "containers need them"},
		{name: "control groups", options: []string{"CGROUPS", "CGROUP_SCHED", "FAIR_GROUP_SCHED", "CPUSETS", "MEMCG",
			"CGROUP_PIDS", "CGROUP_DEVICE", "CGROUP_FREEZER", "CGROUP_CPUACCT"},
			level: Fail, without: "containers need them"},
		{name: "keys", options: []string{"KEYS"}, level: Fail, without: "containers get a keyring each"},
		{name: "more control groups", options: []string{"BLK_CGROUP", "CGROUP_HUGETLB", "CGROUP_PERF"}, level: Warn,
			without: "huge pages and disk statistics of pods are not counted"},
		{name: "user namespaces", options: []string{"USER_NS"}, level: Warn,
			without: "pods with hostUsers: false do not start"},
		{name: "CPU limits", options: []string{"CFS_BANDWIDTH"}, level: Warn,
			without: "CPU limits of pods have no effect"},
		{name: "seccomp", options: []string{"SECCOMP", "SECCOMP_FILTER"}, level: Warn,
			without: "pods with a seccomp profile do not start"},
		{name: "POSIX message queues", options: []string{"POSIX_MQUEUE"}, level: Fail,
			without: "containers mount them"},
		{name: "overlayfs", options: []string{"OVERLAY_FS"}, level: Fail,
			without: "set --snapshotter=native without it", module: "overlay"},
		{name: "veth", options: []string{"VETH"}, level: Fail, without: "pods are connected by it", module: "veth"},
		{name: "bridge", options: []string{"BRIDGE"}, level: Fail,
			without: "pods are connected by it", module: "bridge"},
		{name: "bridge netfilter", options: []string{"BRIDGE_NETFILTER"}, level: Fail,
			without: "pods of one node do not reach each other by a service address", module: "br_netfilter"},
		{name: "connection tracking", options: []string{"NF_CONNTRACK", "NF_NAT"}, level: Fail,
			without: "services need it", module: "nf_conntrack"},
		{name: "vxlan", options: []string{"VXLAN"}, level: Warn,
			without: "set --flannel-backend=host-gw without it", module: "vxlan"},
		{name: "nftables", options: []string{"NF_TABLES", "NF_TABLES_INET", "NFT_CT", "NFT_NAT", "NFT_MASQ",
			"NFT_REJECT", "NFT_FIB", "NFT_FIB_INET", "NFT_NUMGEN"},
			level: Warn, without: "services use the slower iptables mode", module: "nf_tables"},
		{name: "iptables", options: []string{"NETFILTER_XTABLES", "NETFILTER_XT_MATCH_COMMENT",
			"NETFILTER_XT_MATCH_ADDRTYPE", "NETFILTER_XT_MATCH_CONNTRACK", "NETFILTER_XT_MATCH_MULTIPORT",
			"NETFILTER_XT_MATCH_STATISTIC", "NETFILTER_XT_MARK"}, level: Warn, without: "host ports of pods need it"},
	}
}

// sysctls are limits of the kernel that many pods reach.
func (c *check) sysctls() {
	for _, want := range []struct {
		path, name string
		least      int
		found      string
	}{
		{"/proc/sys/kernel/keys/root_maxkeys", "kernel.keys.root_maxkeys", 10000, "every container has a keyring"},
		{"/proc/sys/fs/inotify/max_user_instances", "fs.inotify.max_user_instances", 128,
			"kubelet and pods watch files"},
		{"/proc/sys/fs/inotify/max_user_watches", "fs.inotify.max_user_watches", 8192, "kubelet and pods watch files"},
		{"/proc/sys/kernel/pid_max", "kernel.pid_max", 32768, "every process and thread of a pod has one"},
	} {
		text, err := c.read(want.path)
		if err != nil {
			continue // a kernel without it has no such limit, or the option above says so
		}
		n, err := strconv.Atoi(strings.TrimSpace(text))
		switch {
		case err != nil:
			c.add(Warn, want.name, "", "unknown: %v", err)
		case n < want.least:
			c.add(Warn, want.name, fmt.Sprintf("sysctl -w %s=%d", want.name, want.least), "%d; %s", n, want.found)
		default:
			c.add(Pass, want.name, "", "%d", n)
		}
	}
}

func (c *check) kernel() {
	release, err := c.read("/proc/sys/kernel/osrelease")
	if err != nil {
		c.add(Warn, "kernel configuration", "", "unknown: %v", err)
		return
	}
	release = strings.TrimSpace(release)
	options, path, err := c.kernelOptions(release)
	if err != nil {
		c.add(Warn, "kernel configuration", "install the configuration of the kernel to have it checked",
			"not found for %s; checking loaded modules only", release)
		c.modules()
		return
	}
	c.add(Pass, "kernel configuration", "", "%s of %s", path, release)
	for _, f := range features() {
		var missing []string
		for _, o := range f.options {
			if v := options["CONFIG_"+o]; v != "y" && v != "m" {
				missing = append(missing, "CONFIG_"+o)
			}
		}
		if len(missing) == 0 {
			c.add(Pass, f.name, "", "in the kernel or a module")
			continue
		}
		c.add(f.level, f.name, fmt.Sprintf("use a kernel with %s", strings.Join(missing, ", ")),
			"not in the kernel; %s", f.without)
	}
}

// modules checks what can be seen without the configuration. It never fails:
// a module that is not loaded may still exist.
func (c *check) modules() {
	filesystems, _ := c.read("/proc/filesystems") // absent is empty
	for _, f := range features() {
		if f.module == "" {
			continue
		}
		_, err := os.Stat(filepath.Join(c.Root, "/sys/module", f.module))
		if err == nil || slices.Contains(strings.Fields(filesystems), f.module) {
			c.add(Pass, f.name, "", "loaded")
			continue
		}
		c.add(Warn, f.name, "modprobe "+f.module, "not loaded; %s", f.without)
	}
}

// kernelOptions reads the first configuration of the kernel that exists.
func (c *check) kernelOptions(release string) (map[string]string, string, error) {
	var firstErr error
	for _, path := range []string{"/proc/config.gz", "/boot/config-" + release, "/lib/modules/" + release + "/config",
		"/usr/lib/modules/" + release + "/config"} {
		options, err := readOptions(filepath.Join(c.Root, path))
		if err == nil {
			return options, path, nil
		}
		if firstErr == nil {
			firstErr = err
		}
	}
	return nil, "", firstErr
}

func readOptions(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	}
	options := map[string]string{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok && strings.HasPrefix(name, "CONFIG_") {
			options[name] = value
		}
	}
	return options, lines.Err()
}
