package hosts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	Init()
	os.Exit(m.Run())
}

func run(t *testing.T, h *Host, path string, args ...string) string {
	t.Helper()
	r, err := h.Run(t.Context(), path, args...)
	if err != nil || r.ExitCode != 0 {
		t.Fatalf("%s %v: %v, exit code %d\n%s%s", path, args, err, r.ExitCode, r.Stdout, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout)
}

// showCgroupsAgain mounts a cgroup hierarchy of the machine a second time, as
// somebody does who prepares a chroot, and returns where.
func showCgroupsAgain(t *testing.T) string {
	all, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := unix.Mount(all[0].Dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestHostIsAMachineOfItsOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	lab, err := NewLab()
	if err != nil {
		t.Fatal(err)
	}
	defer lab.Close()
	hardware := func() string {
		bridge, err := netlink.LinkByName(lab.bridge.Name)
		if err != nil {
			t.Fatal(err)
		}
		return bridge.Attrs().HardwareAddr.String()
	}
	before := hardware()
	seen := showCgroupsAgain(t)
	a, err := lab.NewHost(t.Context(), "alpha")
	if err != nil {
		t.Fatal(err)
	}
	b, err := lab.NewHost(t.Context(), "beta")
	if err != nil {
		t.Fatal(err)
	}

	// Hosts that send to the machine know its address: it must not change as others come and go.
	if now := hardware(); now != before {
		t.Errorf("the machine has the hardware address %s in the lab, and had %s before there were hosts", now, before)
	}
	if strings.Contains(run(t, a, "cat", "/proc/self/mountinfo"), seen) {
		t.Errorf("alpha sees the machine's cgroups at %s, want its own only", seen)
	}
	if got := run(t, a, "hostname"); got != "alpha" {
		t.Errorf("host name %q", got)
	}
	if got := run(t, a, "ls", "/sys/class/net"); strings.Contains(got, linkPrefix) || !strings.Contains(got, "eth0") {
		t.Errorf("/sys shows the links %q", got)
	}
	for line := range strings.SplitSeq(run(t, a, "cat", "/proc/self/cgroup"), "\n") {
		if !strings.HasSuffix(line, ":/") && !strings.HasSuffix(line, ":/"+initCgroup) {
			t.Errorf("a process is in cgroup %q, outside the host's root", line)
		}
	}
	if got := run(t, a, "cat", "/etc/resolv.conf"); !strings.Contains(got, lab.Gateway.String()) {
		t.Errorf("resolv.conf is %q", got)
	}
	if err := a.WriteFile("/var/lib/a4s/x/only-alpha", "1"); err != nil {
		t.Fatal(err)
	}
	run(t, a, "test", "-f", "/var/lib/a4s/x/only-alpha")
	run(t, b, "test", "!", "-e", "/var/lib/a4s/x")
	// Nothing listens there, but only a host that is reached can refuse.
	refused, err := b.Run(t.Context(), "bash", "-c", "echo > /dev/tcp/"+a.IP.String()+"/9")
	if err != nil || !strings.Contains(refused.Stderr, "refused") {
		t.Errorf("beta does not reach alpha: %v %s", err, refused.Stderr)
	}

	p, err := a.Start("sh", "-c", "echo started; sleep 1000 & exec sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	sleeping := func() int {
		// A host sees its own processes only.
		return strings.Count(run(t, a, "sh", "-c", "cat /proc/[0-9]*/comm"), "sleep")
	}
	Until(t, 10e9, "the process writes its log, and it and its child sleep", func(context.Context) error {
		if got := sleeping(); got != 2 || !strings.Contains(p.Output(), "started") {
			return fmt.Errorf("%d processes sleep in the host, want 2; the log is %q", got, p.Output())
		}
		return nil
	})
	p.Kill()
	if got := sleeping(); got != 1 {
		t.Errorf("%d processes sleep after the kill, want 1", got)
	}

	lab.Close()
	if _, err := netlink.LinkByName(a.link); err == nil {
		t.Errorf("link %s is left", a.link)
	}
	if left, _ := filepath.Glob("/sys/fs/cgroup/*/" + Prefix + lab.id + "*"); len(left) > 0 {
		t.Errorf("cgroups are left: %v", left)
	}
	if _, err := os.Stat(lab.Dir); err == nil {
		t.Errorf("%s is left", lab.Dir)
	}
}
