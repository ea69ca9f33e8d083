package cleanup

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/agent/host/hostprep"
	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/tests/nstest"
)

// world is a machine on which an a4s ran, next to another runtime.
type world struct {
	t *testing.T
	Options
	root string
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) file(path, content string) {
	w.t.Helper()
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	w.must(os.WriteFile(path, []byte(content), 0o644))
}

func (w *world) sh(script string) string {
	w.t.Helper()
	out, err := exec.Command("sh", "-ec", script).CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

func (w *world) tmpfs(dir string) {
	w.t.Helper()
	w.must(os.MkdirAll(dir, 0o755))
	w.must(unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
}

// proc is a process of the world, with its children.
type proc struct {
	*exec.Cmd
	done chan struct{} // closed when it was reaped
}

// start runs a copy of a program under another name.
func (w *world) start(program, as string, args ...string) proc {
	w.t.Helper()
	data, err := os.ReadFile(program)
	w.must(err)
	w.must(os.MkdirAll(filepath.Dir(as), 0o755))
	w.must(os.WriteFile(as, data, 0o755))
	p := proc{exec.Command(as, args...), make(chan struct{})}
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	w.must(p.Start())
	go func() {
		_ = p.Wait() // it is killed, which is the point
		close(p.done)
	}()
	w.t.Cleanup(func() {
		_ = unix.Kill(-p.Process.Pid, unix.SIGKILL) // gone already, mostly
		<-p.done
	})
	return p
}

func (p proc) exited() bool {
	select {
	case <-p.done:
		return true
	case <-time.After(2 * time.Minute):
		return false
	}
}

const ownUID, otherUID = "aaaa-1111", "bbbb-2222"

func newWorld(t *testing.T) *world {
	root := t.TempDir()
	w := &world{t: t, root: root, Options: Options{
		DataDir: filepath.Join(root, "data"), RunDir: filepath.Join(root, "run"),
		PodLogs: filepath.Join(root, "log/pods"), ContLogs: filepath.Join(root, "log/containers"),
		CNIResults: filepath.Join(root, "cni"), ProcSys: filepath.Join(root, "sys"),
		DevicePlugins: filepath.Join(root, "kubelet/plugins"), Systemd: filepath.Join(root, "no-systemd"),
		CgroupRoot: fmt.Sprintf("a4s-test-%d", os.Getpid()), Out: &bytes.Buffer{},
	}}
	agent := filepath.Join(w.DataDir, "agent")
	w.must(os.MkdirAll(filepath.Join(agent, "kubelet/pods", ownUID), 0o755))
	w.file(filepath.Join(agent, "etc/flannel/net-conf.json"), `{"Network":"10.42.0.0/16"}`)
	w.file(filepath.Join(agent, "etc/cni/net.d/10-a4s.conflist"), `{}`)
	w.file(filepath.Join(agent, "cni-ipam/a4s/10.42.0.5"), "c1")
	conf := func(dir string) string {
		return base64.StdEncoding.EncodeToString([]byte(`{"ipam":{"dataDir":"` + dir + `/agent/cni-ipam"}}`))
	}
	w.file(filepath.Join(w.CNIResults, "a4s-c1-eth0"),
		`{"containerId":"c1","networkName":"a4s","config":"`+conf(w.DataDir)+`"}`)
	w.file(filepath.Join(w.CNIResults, "a4s-c2-eth0"),
		`{"containerId":"c2","networkName":"a4s","config":"`+conf("/elsewhere")+`"}`)
	for _, uid := range []string{ownUID, otherUID} {
		w.file(filepath.Join(w.PodLogs, "default.t1_web_"+uid, "c/0.log"), "x")
		w.must(os.MkdirAll(w.ContLogs, 0o755))
		w.must(os.Symlink(filepath.Join(w.PodLogs, "default.t1_web_"+uid, "c/0.log"),
			filepath.Join(w.ContLogs, uid+".log")))
	}
	w.file(filepath.Join(w.ProcSys, "kernel/random/boot_id"), "b")
	w.file(filepath.Join(w.ProcSys, "net/ipv4/ip_forward"), "0")
	w.file(filepath.Join(w.ProcSys, "kernel/panic"), "1")
	w.must(hostprep.Prepare(context.Background(),
		hostprep.Options{ProcSys: w.ProcSys, RecordFile: filepath.Join(agent, hostprep.RecordName)}))
	w.file(filepath.Join(w.ProcSys, "kernel/panic"), "10")
	return w
}

func TestKillall(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	w := newWorld(t)

	// Mounts: a container's root, a volume, the kubelet's mount of itself;
	// and one elsewhere.
	w.tmpfs(filepath.Join(w.RunDir, "containerd/task/rootfs"))
	kubelet := filepath.Join(w.DataDir, "agent/kubelet")
	w.must(unix.Mount(kubelet, kubelet, "", unix.MS_BIND, ""))
	w.tmpfs(filepath.Join(kubelet, "pods", ownUID, "volumes/secret"))
	w.tmpfs(filepath.Join(w.root, "foreign"))
	t.Cleanup(func() { w.must(unix.Unmount(filepath.Join(w.root, "foreign"), 0)) })

	// Links, routes and rules.
	w.sh(`ip link add cni-a4s0 type bridge
		ip link add vethpod type veth peer name peerpod; ip link set vethpod master cni-a4s0
		ip link add up0 type veth peer name up1; ip link set up0 up; ip link set up1 up; ip addr add 192.0.2.1/24 dev up0
		ip link add flannel.1 type vxlan id 1 dev up0 dstport 8472
		ip link add docker7 type bridge
		ip link add vethdocker type veth peer name peerdocker; ip link set vethdocker master docker7
		ip route add 10.42.1.0/24 via 192.0.2.2; ip route add 10.99.0.0/24 via 192.0.2.3
		nft add table ip kube-proxy; nft add table ip6 kube-proxy; nft add table ip flannel-ipv4; nft add table inet a4s-dns; nft add table inet a4s_policies; nft add table inet a4s_tenants; nft add table inet a4s_filter; nft add table ip foreign
		nft 'add table ip cni_hostport; add chain ip cni_hostport hostports; add rule ip cni_hostport hostports tcp dport 1 accept comment "c1"; add rule ip cni_hostport hostports tcp dport 2 accept comment "c2"'
		iptables -t nat -N KUBE-X; iptables -t nat -A POSTROUTING -j KUBE-X; iptables -N DOCKER-USER`)

	hierarchy := "/sys/fs/cgroup"
	if _, err := os.Stat(hierarchy + "/pids"); err == nil {
		hierarchy += "/pids" // version 1
	}
	cgroup := filepath.Join(hierarchy, w.CgroupRoot)
	t.Cleanup(func() {
		deadline := time.Now().Add(5 * time.Second)
		for errs := []error{nil}; len(errs) > 0 && time.Now().Before(deadline); {
			errs = nil
			removeTree(cgroup, &errs)
		}
	})

	// Processes: the server, its containerd, a shim with a container, an
	// orphan in a pod's cgroup, and the shim of another runtime.
	server := w.start("/bin/sleep", filepath.Join(w.root, "bin/a4s"), "1000")
	w.file(filepath.Join(w.RunDir, instance.FileName),
		fmt.Sprintf(`{"pid":%d,"dataDir":%q}`, server.Process.Pid, w.DataDir))
	containerd := w.start("/bin/dash", filepath.Join(w.root, "bin/containerd"), "-c", "sleep 1000 & wait",
		w.DataDir+"/agent/etc/containerd/config.toml")
	shim := w.start("/bin/dash", filepath.Join(w.DataDir, "data/abc/bin/containerd-shim-runc-v2"),
		"-c", "sleep 1000 & wait")
	foreign := w.start("/bin/dash", filepath.Join(w.root, "usr/containerd-shim-runc-v2"), "-c", "sleep 1000 & wait")
	orphan := w.start("/bin/sleep", filepath.Join(w.root, "bin/app"), "1000")
	own, other := filepath.Join(cgroup, "kubepods/burstable/pod"+ownUID+"/c"),
		filepath.Join(cgroup, "kubepods/pod"+otherUID+"/c")
	for dir, pid := range map[string]int{own: orphan.Process.Pid, other: foreign.Process.Pid} {
		w.must(os.MkdirAll(dir, 0o755))
		w.must(os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, pid), 0o644))
	}

	// That of a machine which has just been ended.
	w.must(os.MkdirAll(filepath.Join(cgroup, "a4s-vm/machine1"), 0o755))

	out := &bytes.Buffer{}
	w.Out = out
	if err := Killall(t.Context(), w.Options); err != nil {
		t.Fatalf("Killall: %v\n%s", err, out)
	}
	t.Logf("said:\n%s", out)

	for name, p := range map[string]proc{"server": server, "containerd": containerd, "shim": shim, "orphan": orphan} {
		if !p.exited() {
			t.Errorf("%s still runs", name)
		}
	}
	if p, err := procfs("/proc").read(foreign.Process.Pid); err != nil || p.zombie {
		t.Error("the shim of another runtime was killed")
	}
	mi, err := os.ReadFile("/proc/self/mountinfo")
	w.must(err)
	if strings.Contains(string(mi), w.RunDir) || strings.Contains(string(mi), kubelet) ||
		!strings.Contains(string(mi), w.root+"/foreign") {
		t.Errorf("mounts:\n%s", mi)
	}
	for what, tc := range map[string]struct{ got, gone, kept string }{
		"links":  {w.sh("ip -o link"), "cni-a4s0 flannel.1 vethpod", "docker7 vethdocker up0"},
		"routes": {w.sh("ip route"), "10.42.1.0", "10.99.0.0"},
		"nftables": {w.sh("nft list ruleset"),
			"kube-proxy flannel-ipv4 a4s-dns a4s_policies a4s_tenants a4s_filter c1", "foreign c2"},
		"iptables": {w.sh("iptables-save"), "KUBE-X", "DOCKER-USER"},
		"results":  {strings.Join(names(w.CNIResults), " "), "a4s-c1-eth0", "a4s-c2-eth0"},
		"pod logs": {strings.Join(append(names(w.PodLogs), names(w.ContLogs)...), " "), ownUID, otherUID},
		"cgroups":  {w.sh("find " + cgroup + " -type d"), "a4s-vm pod" + ownUID, "pod" + otherUID},
		"run dir":  {strings.Join(names(w.root), " "), "run", "data"},
		"agent": {strings.Join(names(filepath.Join(w.DataDir, "agent")), " "),
			"cni-ipam " + hostprep.RecordName, "kubelet"},
		"sysctls": {w.sh("cd " + w.ProcSys + " && cat kernel/panic net/ipv4/ip_forward | tr '\\n' ,"), "10,", "1"},
	} {
		for _, s := range strings.Fields(tc.gone) {
			if strings.Contains(tc.got, s) {
				t.Errorf("%s: %s is still there:\n%s", what, s, tc.got)
			}
		}
		for _, s := range strings.Fields(tc.kept) {
			if !strings.Contains(tc.got, s) {
				t.Errorf("%s: %s is gone:\n%s", what, s, tc.got)
			}
		}
	}

	out.Reset()
	if err := Killall(t.Context(), w.Options); err != nil || out.Len() != 0 {
		t.Errorf("second Killall: %v\n%s", err, out)
	}
}

// TestKillallLeavesNoDirectories is about those that a4s shares with others.
func TestKillallLeavesNoDirectories(t *testing.T) {
	root := t.TempDir()
	o := Options{
		DataDir: filepath.Join(root, "data"), RunDir: filepath.Join(root, "run"),
		PodLogs: filepath.Join(root, "log/pods"), ContLogs: filepath.Join(root, "log/containers"),
		CNIResults: filepath.Join(root, "cni/results"), DevicePlugins: filepath.Join(root, "kubelet/plugins"),
	}
	k := &killer{Options: o.withDefaults()}
	socket := filepath.Join(o.DevicePlugins, "kubelet.sock")
	remove := func() string {
		t.Helper()
		for _, dir := range []string{o.PodLogs, o.ContLogs, o.CNIResults, o.DevicePlugins} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(k.removeFiles(t.Context()), k.removeKubeletSocket(t.Context())); err != nil {
			t.Fatal(err)
		}
		return strings.Join(names(root), " ") + ": " + strings.Join(names(filepath.Join(root, "log")), " ")
	}

	if err := os.MkdirAll(o.DevicePlugins, 0o755); err != nil {
		t.Fatal(err)
	}
	kubelet, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	kubelet.SetUnlinkOnClose(false) // as one that is killed
	if got := remove(); got != "kubelet log: " {
		t.Errorf("beside another kubelet there is %q", got)
	}
	if err := kubelet.Close(); err != nil {
		t.Fatal(err)
	}
	if got := remove(); got != "log: " {
		t.Errorf("there is still %q", got)
	}
	if err := os.MkdirAll(filepath.Join(o.PodLogs, "default_web_1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := remove(); got != "log: pods" {
		t.Errorf("beside the logs of others there is %q", got)
	}
}

// TestKillallStopsSlices has a systemctl that writes down what it is to stop.
func TestKillallStopsSlices(t *testing.T) {
	root := t.TempDir()
	slices, calls := filepath.Join(root, "cgroup/kubepods.slice"), filepath.Join(root, "calls")
	w := &world{t: t, root: root}
	w.file(filepath.Join(root, "bin/systemctl"), "#!/bin/sh\necho \"$@\" >>"+calls+"\n")
	w.must(os.Chmod(filepath.Join(root, "bin/systemctl"), 0o755))
	t.Setenv("PATH", filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	pod := func(uid string) string {
		return filepath.Join(slices, "kubepods-besteffort.slice",
			"kubepods-besteffort-pod"+strings.ReplaceAll(uid, "-", "_")+".slice")
	}
	for _, uid := range []string{ownUID, otherUID} {
		w.must(os.MkdirAll(filepath.Join(pod(uid), "c.scope"), 0o755))
	}
	// The kernel would not let a directory go that has a process in it.
	w.file(filepath.Join(pod(otherUID), "c.scope", "cgroup.procs"), "1\n")

	kill := func() string {
		k := &killer{Options: Options{DataDir: root, RunDir: filepath.Join(root, "run"), Cgroup: filepath.Join(root,
			"cgroup"), Systemd: root}.withDefaults(), pods: ownPods{dataDir: root, uids: []string{ownUID}}}
		w.must(k.removeCgroups(t.Context()))
		w.must(k.stopSlices(t.Context()))
		out, err := os.ReadFile(calls)
		w.must(err)
		w.must(os.Remove(calls))
		return strings.TrimSpace(string(out))
	}
	if got, want := kill(), "stop -- a4svm.slice "+filepath.Base(pod(ownUID)); got != want {
		t.Errorf("beside another's pod: systemctl %s, want %s", got, want)
	}
	w.must(os.Remove(filepath.Join(pod(otherUID), "c.scope", "cgroup.procs")))
	if got, want := kill(), "stop -- a4svm.slice kubepods.slice"; got != want {
		t.Errorf("alone: systemctl %s, want %s", got, want)
	}
}
