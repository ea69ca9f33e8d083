package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/tests/hosts"
)

// footprint counts what a host has, by kind and class: names without what is
// unique in them, like IDs and numbers. A second footprint of the same host
// with the same pods has the same counts, or something has leaked or is lost.
type footprint map[string]int

// unique is what differs between two names of the same class. The name of the
// program is not, although it has a digit.
var unique = regexp.MustCompile(`a4s|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{8,}|[0-9]+`)

func (f footprint) add(kind, name string) {
	f[kind+" "+unique.ReplaceAllStringFunc(name, func(part string) string {
		if part == "a4s" {
			return part
		}
		return "#"
	})]++
}

// stateDirs are where a4s and what it runs keep files.
var stateDirs = []string{"/run/a4s", "/run/netns", "/run/flannel", dataDir, "/var/lib/kubelet", "/var/lib/cni",
	"/var/log/pods", "/var/log/containers", "/etc/a4s", "/etc/cni"}

func takeFootprint(t *testing.T, h *hosts.Host) footprint {
	t.Helper()
	f := footprint{}
	m := look(t, h)
	for i, rule := range m.rules {
		// Elements of a set come in any order, the first and last with more.
		m.rules[i] = strings.Trim(strings.TrimPrefix(rule, "elements = {"), " ,}")
	}
	for kind, names := range map[string][]string{
		"process": m.processes, "mount": m.mounts, "link": m.links, "cgroup": m.cgroups,
		"rule": m.rules, "route": m.routes,
	} {
		for _, name := range names {
			f.add(kind, name)
		}
	}
	namespaces := map[string]bool{}
	processes, err := filepath.Glob(h.Path("/proc/[0-9]*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range processes {
		// A process may end meanwhile.
		if ns, err := os.Readlink(filepath.Join(dir, "ns/net")); err == nil {
			namespaces[ns] = true
		}
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		program, _, _ := strings.Cut(string(cmdline), "\x00")
		files, _ := os.ReadDir(filepath.Join(dir, "fd"))
		for _, file := range files {
			if to, err := os.Readlink(filepath.Join(dir, "fd", file.Name())); err == nil && program != "" {
				f.add("open", filepath.Base(program)+": "+to)
			}
		}
	}
	for line := range strings.Lines(run(t, h, "cat", "/proc/1/mountinfo")) {
		// Those that no process is in are kept by a mount.
		if fields := strings.Fields(line); strings.HasPrefix(fields[3], "net:") {
			namespaces[fields[3]] = true
		}
	}
	f["network namespaces"] = len(namespaces)
	for _, top := range stateDirs {
		_ = filepath.WalkDir(h.Path(top), func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return nil // gone meanwhile
			}
			if d.IsDir() && (d.Name() == "rootfs" || d.Name() == "fs") {
				return filepath.SkipDir // what is in an image
			}
			f.add("file", strings.TrimPrefix(path, h.Path("/")))
			return nil
		})
	}
	return f
}

// tolerance is by how much the count of what matches may change, and why.
type tolerance struct {
	what  *regexp.Regexp
	slack int
	why   string
}

// tolerances are for what comes and goes while nothing happens. None grows
// with the number of failures: a leak exceeds it after a few of them.
var tolerances = []tolerance{
	{regexp.MustCompile(`^open .*: (socket:|anon_inode:|pipe:)`), 24,
		"connections between components and from clients come and go"},
	{regexp.MustCompile(`^open .*: /dev/kmsg$`), 2,
		"upstream's readers of the kernel's log end when that overtakes them"},
	{regexp.MustCompile(`^open a4s(-node)?: .*/kubelet/(pod-resources|pods-api)/# \(deleted\)$`), 1,
		"the kubelet forgets to close a file, and Go's garbage collection does"},
	{regexp.MustCompile(`^(open|file) .*/member/(wal|snap)\b`), 8,
		"etcd cuts its log into files, and keeps five of them"},
	{regexp.MustCompile(`^file /run/a4s/containerd/.*(\.tmp|/log)`), 4, "a container is being started or stopped"},
	{regexp.MustCompile(`^process .*(runc|containerd-shim-runc-v2 .*(delete|start)|nft|iptables|/testbox get)`), 3,
		"programs that run for a moment"},
	{regexp.MustCompile(`^open a4s(-node)?: /proc/#/mountinfo$`), 1,
		"the kubelet reads it now and then, and a look may meet that"},
	{regexp.MustCompile(`^open (runc|nft|iptables[^:]*|exe|testbox|ip|ls|cat|sh): `), 24, "the same"},
}

// grown says what is different in b from a, apart from what is tolerated.
func grown(a, b footprint, more ...tolerance) []string {
	var all []string
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a[name] == b[name] {
			continue
		}
		slack := 0
		for _, tol := range slices.Concat(tolerances, more) {
			if tol.what.MatchString(name) {
				slack = max(slack, tol.slack)
			}
		}
		if diff := b[name] - a[name]; diff > slack || -diff > slack {
			all = append(all, fmt.Sprintf("%s: %d, was %d", name, b[name], a[name]))
		}
	}
	return all
}

// steadyFootprint is what a host has once nothing comes any more: rules follow pods.
func steadyFootprint(t *testing.T, h *hosts.Host) (is footprint) {
	t.Helper()
	var since time.Time
	hosts.Until(t, soon, h.Name+" has all it needs", func(context.Context) error {
		now := takeFootprint(t, h)
		if is == nil || len(grown(is, now)) > 0 {
			is, since = now, time.Now()
		}
		if steady := time.Since(since); steady < 10*time.Second {
			return fmt.Errorf("it changed %s ago", steady)
		}
		return nil
	})
	return is
}

// wantSameFootprint waits until a host has what it had. What is left of a
// failure goes by the garbage collections of its owners, once a minute.
func wantSameFootprint(t *testing.T, h *hosts.Host, before footprint, more ...tolerance) {
	t.Helper()
	hosts.Until(t, soon, h.Name+" has what it had before", func(context.Context) error {
		if diff := grown(before, takeFootprint(t, h), more...); len(diff) > 0 {
			return errors.New(strings.Join(diff, "\n"))
		}
		return nil
	})
}

// identity is what makes a cluster the same one: UIDs of objects, and the
// containers of pods with how often each was restarted.
type identity map[string]string

// ofTenant begins the names of what is in a tenant's space.
const ofTenant = "of the tenant: "

// identify reads the identities of the objects in namespaces and of what the
// system itself keeps.
func identify(t *testing.T, client kubernetes.Interface, namespaces ...string) identity {
	t.Helper()
	ctx, all := t.Context(), identity{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, ns := range append(namespaces, metav1.NamespaceSystem) {
		add := func(kind string, o metav1.ObjectMeta) { all[kind+" "+ns+"/"+o.Name] = string(o.UID) }
		pods, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		must(err)
		for _, p := range pods.Items {
			add("pod", p.ObjectMeta)
			for _, s := range p.Status.ContainerStatuses {
				all["container "+ns+"/"+p.Name+"/"+s.Name] = fmt.Sprintf("%s, %d restarts, %s", s.ContainerID,
					s.RestartCount, p.Status.PodIP)
			}
		}
		configMaps, err := client.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
		must(err)
		for _, o := range configMaps.Items {
			add("config map", o.ObjectMeta)
		}
		secrets, err := client.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{})
		must(err)
		for _, o := range secrets.Items {
			add("secret", o.ObjectMeta)
		}
		services, err := client.CoreV1().Services(ns).List(ctx, metav1.ListOptions{})
		must(err)
		for _, o := range services.Items {
			add("service", o.ObjectMeta)
		}
		accounts, err := client.CoreV1().ServiceAccounts(ns).List(ctx, metav1.ListOptions{})
		must(err)
		for _, o := range accounts.Items {
			add("service account", o.ObjectMeta)
		}
	}
	return all
}

// changes says what is different in b from a.
func (a identity) changes(b identity) []string {
	var all []string
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a[name] != b[name] {
			all = append(all, fmt.Sprintf("%s is %q, was %q", name, b[name], a[name]))
		}
	}
	return all
}

// of leaves out what another does not have, as a newer release begins with more.
func (a identity) of(other identity) identity {
	b := maps.Clone(a)
	maps.DeleteFunc(b, func(name, _ string) bool { _, there := other[name]; return !there })
	return b
}

// withoutContainers leaves the containers out, for failures that end them.
func (a identity) withoutContainers() identity {
	b := maps.Clone(a)
	maps.DeleteFunc(b, func(name, _ string) bool {
		return strings.HasPrefix(strings.TrimPrefix(name, ofTenant), "container ")
	})
	return b
}

// without leaves pods out, with their containers.
func (a identity) without(pods ...string) identity {
	b := maps.Clone(a)
	maps.DeleteFunc(b, func(name, _ string) bool {
		return slices.ContainsFunc(pods, func(pod string) bool { return strings.Contains(name, "/"+pod) })
	})
	return b
}

// The checks above can fail.
func TestFootprintsTellLeaks(t *testing.T) {
	a, b := footprint{}, footprint{}
	for _, f := range []footprint{a, b} {
		f.add("mount", "/run/netns/cni-11111111-2222-3333-4444-555555555555")
		f.add("open", "a4s: socket:[1]")
	}
	b.add("open", "a4s: socket:[2]")
	b.add("file", "/run/a4s/containerd/io.containerd.runtime.v2.task/k8s.io/1/log")
	if diff := grown(a, b); len(diff) != 0 {
		t.Errorf("one connection more is a leak: %v", diff)
	}
	b.add("mount", "/run/netns/cni-99999999-2222-3333-4444-555555555555")
	if diff := grown(a, b); len(diff) != 1 || diff[0] != "mount /run/netns/cni-#: 2, was 1" {
		t.Errorf("a second mount of the class gives %q", diff)
	}
	if diff := grown(b, a); len(diff) != 1 {
		t.Errorf("a mount less gives %q", diff)
	}
	was := identity{"pod a": "1", "container a/box": "x"}
	if diff := was.changes(identity{"pod a": "2", "container a/box": "x"}); len(diff) != 1 {
		t.Errorf("another pod of the same name gives %q", diff)
	}
	was[ofTenant+"container a/box"] = "x"
	if diff := was.withoutContainers().changes(identity{"pod a": "1"}); len(diff) != 0 {
		t.Errorf("containers are compared although they are left out: %q", diff)
	}
}
