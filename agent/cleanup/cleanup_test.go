package cleanup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/problem"
)

const mountinfo = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:25 / /run rw,nosuid shared:5 - tmpfs tmpfs rw
40 30 0:40 / /run/a4s/containerd/task/k8s.io/abc/rootfs rw shared:9 - overlay overlay rw
41 30 0:4 net:[4026532] /run/a4s/containerd/netns/cni-1 rw shared:10 - nsfs nsfs rw
42 30 0:4 net:[4026533] /run/netns/cni-9 rw shared:10 - nsfs nsfs rw
43 30 0:41 / /run/a4s-other/x rw - tmpfs tmpfs rw
50 22 8:1 /var/lib/a4s/agent/kubelet /var/lib/a4s/agent/kubelet rw shared:1 - ext4 /dev/vda1 rw
51 50 0:50 / /var/lib/a4s/agent/kubelet/pods/u1/volumes/kubernetes.io~projected/with\040blank rw shared:20 - tmpfs tmpfs rw
52 22 8:17 / /var/lib/a4s/agent/containerd rw shared:21 - ext4 /dev/vdb1 rw
53 22 8:18 / /var/lib/a4s/server/db rw shared:22 - ext4 /dev/vdc1 rw
54 22 0:60 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw
`

func TestOwnMountsLastFirstAndNothingElse(t *testing.T) {
	all, err := parseMountinfo(mountinfo)
	if err != nil {
		t.Fatal(err)
	}
	k := &killer{Options: Options{DataDir: "/var/lib/a4s", RunDir: "/run/a4s"}}
	var got []string
	for _, m := range k.ownMounts(all) {
		got = append(got, m.target)
	}
	want := []string{
		"/var/lib/a4s/agent/kubelet/pods/u1/volumes/kubernetes.io~projected/with blank",
		"/var/lib/a4s/agent/kubelet",
		"/run/a4s/containerd/netns/cni-1",
		"/run/a4s/containerd/task/k8s.io/abc/rootfs",
	}
	if !slices.Equal(got, want) {
		t.Errorf("own mounts:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := parseMountinfo("garbage\n"); err == nil {
		t.Error("parseMountinfo accepted garbage")
	}
}

type fakeProc struct {
	pid, ppid int
	state     string
	exe       string
	args      string
	cgroup    string
	container bool // it is in one: it has another root directory
}

func writeProc(t *testing.T, procs []fakeProc) string {
	t.Helper()
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(root, "sys"), 0o755)) // not a process
	for _, p := range procs {
		dir := filepath.Join(root, fmt.Sprint(p.pid))
		must(os.MkdirAll(dir, 0o755))
		if p.state == "" {
			p.state = "S"
		}
		stat := fmt.Sprintf("%d (a ) name) %s %d 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0", p.pid, p.state, p.ppid)
		must(os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644))
		must(os.WriteFile(filepath.Join(dir, "cmdline"),
			[]byte(strings.ReplaceAll(p.args, " ", "\x00")+"\x00"), 0o644))
		must(os.WriteFile(filepath.Join(dir, "cgroup"), []byte("4:memory:"+p.cgroup+"\n"), 0o644))
		if p.exe != "" {
			must(os.Symlink(p.exe, filepath.Join(dir, "exe")))
		}
		if p.container {
			must(os.Symlink(root, filepath.Join(dir, "root")))
		} else {
			must(os.Symlink("/", filepath.Join(dir, "root")))
		}
	}
	return root
}

func TestPodProcesses(t *testing.T) {
	const uid = "0a1b-2c3d"
	root := writeProc(t, []fakeProc{
		{pid: 1, exe: "/sbin/init"},
		{pid: 10, ppid: 1, exe: "/var/lib/a4s/data/abc/bin/containerd-shim-runc-v2"},
		{pid: 11, ppid: 10, exe: "/pause", cgroup: "/kubepods/pod" + uid + "/x"},
		{pid: 12, ppid: 11, exe: "/bin/app"},
		{pid: 13, ppid: 10, state: "Z"},
		{pid: 20, ppid: 1, exe: "/var/lib/a4s/data/old/bin/containerd-shim-runc-v2 (deleted)"},
		{pid: 30, ppid: 1, exe: "/var/lib/a4s2/data/abc/bin/containerd-shim-runc-v2"},
		{pid: 31, ppid: 30, exe: "/bin/other", cgroup: "/kubepods/podffff/x"},
		{pid: 40, ppid: 1, exe: "/usr/bin/containerd-shim-runc-v2"},
		{pid: 50, ppid: 1, exe: "/bin/orphan", cgroup: "/kubepods/burstable/pod" + uid + "/y"},
		{pid: 51, ppid: 1, exe: "/bin/orphan", cgroup: "/kubepods.slice/kubepods-burstable.slice/" +
			"kubepods-burstable-pod0a1b_2c3d.slice/cri-containerd-z.scope"},
		{pid: 41, ppid: 1, exe: "/var/lib/a4s/data/abc/bin/containerd-shim-runc-v2", container: true},
		{pid: 52, ppid: 1, exe: "/bin/lookalike", cgroup: "/user.slice/pod" + uid},
	})
	all, err := procfs(root).processes()
	if err != nil {
		t.Fatal(err)
	}
	pods := &ownPods{dataDir: "/var/lib/a4s", uids: []string{uid}}
	var got []int
	for _, p := range pods.processes(all) {
		got = append(got, p.pid)
	}
	if want := []int{10, 11, 12, 20, 50, 51}; !slices.Equal(got, want) {
		t.Errorf("victims = %v, want %v", got, want)
	}
}

func TestOnlyOurContainerd(t *testing.T) {
	k := &killer{Options: Options{DataDir: "/var/lib/a4s", RunDir: "/run/a4s"}} // neither has to be there
	for args, want := range map[string]bool{
		"containerd -c /var/lib/a4s/agent/etc/containerd/config.toml":     true,
		"/usr/bin/containerd --config=/var/lib/a4s/agent/containerd.toml": true,
		"containerd --address /run/a4s/containerd/containerd.sock":        true,
		"containerd -c /etc/containerd/config.toml":                       false,
		"containerd": false,
		"containerd -c /var/lib/a4s2/agent/etc/containerd/config.toml":         false,
		"vi /var/lib/a4s/agent/etc/containerd/config.toml":                     false,
		"containerd-shim-runc-v2 -address /run/a4s/containerd/containerd.sock": false,
	} {
		if got := k.isContainerd(process{args: strings.Fields(args)}); got != want {
			t.Errorf("isContainerd(%s) = %v", args, got)
		}
	}
	// That of an a4s in a container of something else has the same paths.
	root := writeProc(t, []fakeProc{{pid: 1, args: "containerd -c /var/lib/a4s/config.toml"},
		{pid: 2, args: "containerd -c /var/lib/a4s/config.toml", container: true}})
	for pid, want := range map[int]bool{1: true, 2: false} {
		p, err := procfs(root).read(pid)
		if err != nil {
			t.Fatal(err)
		}
		if got := k.isContainerd(p); got != want {
			t.Errorf("process %d: %v, want %v", pid, got, want)
		}
	}
}

func TestServiceUnitIsOnlyOurs(t *testing.T) {
	for cgroup, want := range map[string]string{
		"/system.slice/a4s.service":        "a4s.service",
		"/system.slice/a4s-agent.service":  "a4s-agent.service",
		"/system.slice/ci-runner.service":  "",
		"/user.slice/session-3.scope":      "",
		"/system.slice/a4s.service/nested": "",
	} {
		if got := serviceUnit(process{cgroups: []string{"/", cgroup}}); got != want {
			t.Errorf("serviceUnit(%s) = %q, want %q", cgroup, got, want)
		}
	}
}

func TestOwnChains(t *testing.T) {
	chain := func(name string, comments ...string) netfilter.Chain {
		return netfilter.Chain{Table: "nat", Name: name, Comments: comments}
	}
	ours := chain("CNI-DN-a", `dnat name: "a4s" id: "1"`)
	theirs := chain("CNI-DN-b", `dnat name: "podman" id: "2"`)
	shared := chain("CNI-HOSTPORT-DNAT")
	for _, tc := range []struct {
		name   string
		chains []netfilter.Chain
		want   string
	}{
		{"alone", []netfilter.Chain{chain("KUBE-SVC"), chain("FLANNEL-FWD"), chain("A4S-DNS"), chain("DOCKER"), ours,
			shared}, "KUBE-SVC FLANNEL-FWD A4S-DNS CNI-DN-a CNI-HOSTPORT-DNAT"},
		{"beside another network", []netfilter.Chain{ours, theirs, shared}, "CNI-DN-a"},
	} {
		var got []string
		for _, c := range ownChains(tc.chains) {
			got = append(got, c.Name)
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %v, want %s", tc.name, got, tc.want)
		}
	}
}

func TestRunDirectoryOfAnotherDataDirIsRefused(t *testing.T) {
	run := t.TempDir()
	if err := os.WriteFile(filepath.Join(run, instance.FileName), []byte(`{"pid":1,"dataDir":"/srv/other"}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	err := Killall(t.Context(), Options{DataDir: t.TempDir(), RunDir: run})
	var in *problem.Input
	if !errors.As(err, &in) || !strings.Contains(in.Want, "/srv/other") {
		t.Errorf("Killall = %v", err)
	}
	if _, err := os.Stat(filepath.Join(run, instance.FileName)); err != nil {
		t.Errorf("it touched the other's run directory: %v", err)
	}
}
