package vmpods

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/agent/vm/process"
	"github.com/a4s-io/a4s/agent/vm/supervisor"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// killService kills the runtime service as if it had crashed, and keeps its
// supervisor from starting the next one until the returned function is called,
// which waits for that.
func (n *node) killService() (restart func()) {
	n.t.Helper()
	p, err := process.Open(supervisor.PIDFile(n.vm.Root))
	if err != nil {
		n.t.Fatal(err)
	}
	// The lock of the directory keeps the next one out.
	if err := p.Kill(); err != nil {
		n.t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(n.vm.Root, "lock"), os.O_RDWR, 0)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		n.t.Fatal(err)
	}
	return func() {
		n.t.Helper()
		if err := f.Close(); err != nil {
			n.t.Fatal(err)
		}
		n.waitFor("the service is back", func() bool {
			_, err := n.runtime.Version(n.ctx(), &runtimeapi.VersionRequest{})
			return err == nil
		})
	}
}

// machines are the QEMUs of a sandbox, or of all.
func (n *node) machines(sandbox string) []string {
	n.t.Helper()
	var found []string
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		n.t.Fatal(err)
	}
	for _, dir := range dirs {
		exe, _ := os.Readlink(filepath.Join(dir, "exe"))
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		name := filepath.Base(exe)
		if (strings.HasPrefix(name, "qemu-system") || name == "virtiofsd") && strings.Contains(cwd, sandbox) {
			found = append(found, name)
		}
	}
	return found
}

// killMachine kills QEMU of a sandbox.
func (n *node) killMachine(sandbox string) {
	n.t.Helper()
	p, err := process.Open(filepath.Join(n.vm.State, "pods", sandbox, "qemu.pid"))
	if err != nil {
		n.t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		n.t.Fatal(err)
	}
}

// leftovers is what pods can leave: processes, links, mounts, files.
func (n *node) leftovers() []string {
	n.t.Helper()
	var all []string
	for _, name := range n.machines("") {
		all = append(all, "process "+name)
	}
	links, err := netlink.LinkList()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, l := range links {
		all = append(all, "link "+l.Attrs().Name)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); strings.HasPrefix(f[1], n.vm.State) || strings.HasPrefix(f[1], n.vm.Root) {
			all = append(all, "mount "+f[1])
		}
	}
	for _, pattern := range []string{
		n.vm.State + "/pods/*", n.vm.State + "/network/*/*", n.vm.Root + "/containers/*", n.vm.Root + "/records/*/*",
		n.vm.Root + "/images/*/*.tmp*",
		filepath.Join(filepath.Dir(n.logs), "ipam", "*", "10.*"), "/var/lib/cni/results/*",
	} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			n.t.Fatal(err)
		}
		for _, path := range paths {
			all = append(all, "file "+path)
		}
	}
	return all
}

// nothingBut checks that there is nothing that was not there before. The bridge
// stays.
func (n *node) nothingBut(t *testing.T, before []string) {
	t.Helper()
	for _, left := range n.leftovers() {
		if !slices.Contains(before, left) && left != "link vmtest0" && left != "link lo" {
			t.Errorf("left: %s", left)
		}
	}
}
