package checkconfig

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// good describes a machine on which every check passes.
func good(t *testing.T) (Host, map[string]string) {
	t.Helper()
	var options strings.Builder
	for _, f := range features() {
		for _, o := range f.options {
			options.WriteString("CONFIG_" + o + "=m\n")
		}
	}
	files := map[string]string{
		"/proc/self/status":                  "Name:\tx\nCapEff:\t000001ffffffffff\n",
		"/proc/mounts":                       "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
		"/proc/swaps":                        "Filename Type Size Used Priority\n",
		"/proc/sys/kernel/osrelease":         "6.1.0-test\n",
		"/proc/filesystems":                  "nodev\tproc\n",
		"/boot/config-6.1.0-test":            "# comment\n" + options.String(),
		"/sys/fs/cgroup/cgroup.controllers":  "cpuset cpu io memory hugetlb pids\n",
		"/sys/module/br_netfilter/initstate": "live\n",
	}
	return Host{
		Root:      t.TempDir(),
		DataDir:   filepath.Join(t.TempDir(), "not", "yet"),
		LookPath:  func(name string) (string, error) { return "/usr/bin/" + name, nil },
		FreeSpace: func(string) (uint64, uint64, error) { return 100 << 30, 200 << 30, nil },
		OpenFiles: func() (uint64, error) { return 1 << 20, nil },
		PortFree:  func(int) bool { return true },
	}, files
}

func lacking(names ...string) func(string) (string, error) {
	return func(name string) (string, error) {
		for _, n := range names {
			if n == name {
				return "", exec.ErrNotFound
			}
		}
		return "/bin/" + name, nil
	}
}

func TestRun(t *testing.T) {
	v1 := func(controllers ...string) string {
		var b strings.Builder
		for _, c := range controllers {
			b.WriteString("cgroup /sys/fs/cgroup/" + c + " cgroup rw,relatime," + c + " 0 0\n")
		}
		return b.String()
	}
	for _, tc := range []struct {
		name   string
		change func(h *Host, files map[string]string)
		// want are the results that are no pass, as "LEVEL name".
		want string
		fix  string // in one of them
	}{
		{name: "all well", change: func(*Host, map[string]string) {}},
		{name: "not root", change: func(h *Host, _ map[string]string) { h.UID = 1000 },
			want: "FAIL user", fix: "root"},
		{name: "no CAP_SYS_RESOURCE",
			change: func(_ *Host, f map[string]string) { f["/proc/self/status"] = "CapEff:\t000001fffeffffff\n" },
			want:   "WARN CAP_SYS_RESOURCE"},
		{name: "no CAP_NET_ADMIN",
			change: func(_ *Host, f map[string]string) { f["/proc/self/status"] = "CapEff:\t000001ffffffefff\n" },
			want:   "FAIL CAP_NET_ADMIN"},
		{name: "cgroup 2 without memory", change: func(_ *Host, f map[string]string) {
			f["/sys/fs/cgroup/cgroup.controllers"] = "cpuset cpu io pids\n"
		}, want: "FAIL cgroup controllers", fix: "command line"},
		{name: "cgroup 1", change: func(_ *Host, f map[string]string) {
			delete(f, "/sys/fs/cgroup/cgroup.controllers")
			f["/proc/mounts"] = v1("cpu,cpuacct", "cpuset", "memory", "devices", "freezer", "pids") +
				"cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
		}, want: "WARN cgroup version"},
		{name: "cgroup 1 without pids", change: func(_ *Host, f map[string]string) {
			delete(f, "/sys/fs/cgroup/cgroup.controllers")
			f["/proc/mounts"] = v1("cpu,cpuacct", "cpuset", "memory", "devices", "freezer")
		}, want: "WARN cgroup version, FAIL cgroup controllers"},
		{name: "no cgroups", change: func(_ *Host, f map[string]string) {
			delete(f, "/sys/fs/cgroup/cgroup.controllers")
			f["/proc/mounts"] = ""
		}, want: "FAIL cgroup version"},
		{name: "kernel without overlayfs", change: func(_ *Host, f map[string]string) {
			f["/boot/config-6.1.0-test"] = strings.Replace(f["/boot/config-6.1.0-test"], "CONFIG_OVERLAY_FS=m",
				"# CONFIG_OVERLAY_FS is not set", 1)
		}, want: "FAIL overlayfs", fix: "CONFIG_OVERLAY_FS"},
		{name: "kernel without vxlan", change: func(_ *Host, f map[string]string) {
			f["/boot/config-6.1.0-test"] = strings.Replace(f["/boot/config-6.1.0-test"], "CONFIG_VXLAN=m\n", "", 1)
		}, want: "WARN vxlan"},
		{name: "compressed configuration comes first", change: func(_ *Host, f map[string]string) {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			if _, err := z.Write([]byte(strings.Replace(f["/boot/config-6.1.0-test"], "CONFIG_VETH=m\n",
				"", 1))); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			f["/proc/config.gz"] = b.String()
		}, want: "FAIL veth"},
		{name: "unknown configuration", change: func(_ *Host, f map[string]string) {
			delete(f, "/boot/config-6.1.0-test")
			f["/proc/filesystems"] += "nodev\toverlay\n"
			f["/sys/module/bridge/x"] = ""
			f["/sys/module/nf_conntrack/x"] = ""
			f["/sys/module/vxlan/x"] = ""
			f["/sys/module/nf_tables/x"] = ""
		}, want: "WARN kernel configuration, WARN veth", fix: "modprobe veth"},
		{name: "no mount", change: func(h *Host, _ map[string]string) { h.LookPath = lacking("mount") },
			want: "FAIL mount"},
		{name: "no nft", change: func(h *Host, _ map[string]string) { h.LookPath = lacking("nft") }, want: "WARN nft"},
		{name: "no packet filter",
			change: func(h *Host, _ map[string]string) { h.LookPath = lacking("nft", "iptables") },
			want:   "FAIL nft or iptables"},
		{name: "few open files",
			change: func(h *Host, _ map[string]string) { h.OpenFiles = func() (uint64, error) { return 1024, nil } },
			want:   "WARN open files"},
		{name: "kernel without keys", change: func(_ *Host, f map[string]string) {
			f["/boot/config-6.1.0-test"] = strings.Replace(f["/boot/config-6.1.0-test"], "CONFIG_KEYS=m\n", "", 1)
		}, want: "FAIL keys"},
		{name: "few keys",
			change: func(_ *Host, f map[string]string) { f["/proc/sys/kernel/keys/root_maxkeys"] = "200\n" },
			want:   "WARN kernel.keys.root_maxkeys", fix: "sysctl -w kernel.keys.root_maxkeys=10000"},
		{name: "enough keys",
			change: func(_ *Host, f map[string]string) { f["/proc/sys/kernel/keys/root_maxkeys"] = "1000000\n" }},
		{name: "swap",
			change: func(_ *Host, f map[string]string) { f["/proc/swaps"] += "/dev/sda2 partition 1 0 -2\n" },
			want:   "WARN swap", fix: "swapoff"},
		{name: "full disk", change: func(h *Host, _ map[string]string) {
			h.FreeSpace = func(string) (uint64, uint64, error) { return 1 << 20, 1 << 30, nil }
		}, want: "FAIL disk of DIR", fix: "--data-dir"},
		{name: "nearly full disk", change: func(h *Host, _ map[string]string) {
			h.FreeSpace = func(string) (uint64, uint64, error) { return 1 << 30, 9 << 30, nil }
		}, want: "WARN disk of DIR"},
		{name: "port in use",
			change: func(h *Host, _ map[string]string) { h.PortFree = func(p int) bool { return p != 6443 } },
			want:   "WARN port 6443/tcp", fix: "--https-listen-port"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, files := good(t)
			tc.change(&h, files)
			for name, text := range files {
				path := filepath.Join(h.Root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var got, fixes []string
			for _, r := range Run(h) {
				if r.Found == "" {
					t.Errorf("%s does not say what was found", r.Name)
				}
				if r.Level != Pass {
					got = append(got, string(r.Level)+" "+strings.ReplaceAll(r.Name, h.DataDir, "DIR"))
					fixes = append(fixes, r.Fix)
				}
			}
			if s := strings.Join(got, ", "); s != tc.want {
				t.Errorf("got %q, want %q", s, tc.want)
			}
			if !strings.Contains(strings.Join(fixes, "\n"), tc.fix) {
				t.Errorf("fixes %q lack %q", fixes, tc.fix)
			}
		})
	}
}

func TestThisHost(t *testing.T) {
	if results := Run(ThisHost(t.TempDir())); len(results) < 15 {
		t.Errorf("only %d results: %+v", len(results), results)
	}
}
