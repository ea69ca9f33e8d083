package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// machine is what a4s changes of a host and killall has to give back.
type machine struct {
	processes, mounts, links, cgroups, rules, routes []string
	sysctls                                          map[string]string
}

// rulesOfOurs are the marks of the tables and chains that a4s' parts make.
var rulesOfOurs = regexp.MustCompile(`(?i)kube|cni-|flannel|a4s`)

// sysctls are those that parts of a4s set.
const sysctls = "net/ipv4/ip_forward net/ipv4/conf/all/* net/ipv4/conf/default/* net/ipv6/conf/all/forwarding " +
	"net/bridge/bridge-nf-* vm/overcommit_memory kernel/panic kernel/panic_on_oops kernel/keys/root_max* " +
	"net/netfilter/nf_conntrack_max net/netfilter/nf_conntrack_tcp_timeout_*"

func look(t *testing.T, h *hosts.Host) machine {
	t.Helper()
	m := machine{sysctls: map[string]string{}}
	commands, err := filepath.Glob(h.Path("/proc/[0-9]*/cmdline"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range commands {
		// A process may end meanwhile, and a dead one has no command line.
		if b, err := os.ReadFile(path); err == nil && len(b) > 0 {
			m.processes = append(m.processes, strings.ReplaceAll(strings.Trim(string(b), "\x00"), "\x00", " "))
		}
	}
	mounts, err := os.ReadFile(h.Path("/proc/1/mountinfo"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(mounts)), "\n") {
		m.mounts = append(m.mounts, strings.Fields(line)[4])
	}
	m.links = strings.Fields(run(t, h, "ls", "/sys/class/net"))
	for line := range strings.SplitSeq(run(t, h, "nft", "list", "ruleset"), "\n") {
		if rulesOfOurs.MatchString(line) {
			m.rules = append(m.rules, strings.TrimSpace(line))
		}
	}
	m.routes = strings.Split(run(t, h, "ip", "route"), "\n")
	_ = filepath.WalkDir(h.Path("/sys/fs/cgroup"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			m.cgroups = append(m.cgroups, strings.TrimPrefix(path, h.Path("/")))
		}
		return nil
	})
	// Read inside, because those of the network belong to the reader's.
	for line := range strings.SplitSeq(run(t, h, "sh", "-c", "cd /proc/sys; grep -Hs '' "+sysctls), "\n") {
		name, value, _ := strings.Cut(line, ":")
		m.sysctls[name] = value
	}
	return m
}

// differences says what b has that a has not, and for sysctls what changed.
func differences(a, b machine) []string {
	var all []string
	for _, part := range []struct {
		name        string
		before, now []string
	}{
		{"process", a.processes, b.processes},
		{"mount", a.mounts, b.mounts},
		{"link", a.links, b.links},
		{"cgroup", a.cgroups, b.cgroups},
		{"rule", a.rules, b.rules},
		{"route", a.routes, b.routes},
	} {
		for _, item := range part.now {
			if !slices.Contains(part.before, item) {
				all = append(all, part.name+" "+item)
			}
		}
		for _, item := range part.before {
			if !slices.Contains(part.now, item) {
				all = append(all, "missing "+part.name+" "+item)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.sysctls)) {
		if now, ok := b.sysctls[name]; ok && now != a.sysctls[name] {
			all = append(all, fmt.Sprintf("sysctl %s: %s, was %s", name, now, a.sysctls[name]))
		}
	}
	return all
}

func TestKillallGivesTheMachineBack(t *testing.T) {
	h := newHost(t, "wiped")
	before := look(t, h)
	c, err := newServer(h)
	if err != nil {
		t.Fatal(err)
	}
	c.reportOnFailure(t)
	c.waitReady(t)
	c.waitOwnNode(t)
	ns := c.namespace(t)
	web := c.runDeployment(t, ns, deployment("web", 2))
	c.createService(t, ns, service("web", "web"))
	hostPort := testboxPod("hostport")
	hostPort.Spec.Containers[0].Ports[0].HostPort = 18080
	mount(hostPort, "kube-root-ca.crt")
	c.runPod(t, ns, hostPort)
	client := c.runPod(t, ns, testboxPod("client"))
	c.waitAnswer(t, ns, client.Name, "hostport", "/get", "url", "http://"+h.IP.String()+":18080/hostname")

	running := look(t, h)
	for _, kind := range []string{"process ", "mount ", "link ", "cgroup ", "rule ", "route ", "sysctl "} {
		if !slices.ContainsFunc(differences(before, running),
			func(d string) bool { return strings.HasPrefix(d, kind) }) {
			t.Errorf("a running server shows no %sthat was not there: the check below could not fail", kind)
		}
	}

	// With a server that still runs, and then after each way that one ends.
	ends := []struct {
		name string
		end  func()
	}{
		{"running", func() {}},
		{"killed", func() { c.proc.Kill() }},
		{"stopped", func() {
			if err := c.proc.Stop(stopTimeout); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for i, server := range ends {
		if i > 0 {
			c.restart(t)
			c.waitOwnNode(t)
			c.waitServing(t, ns, "hostport")
			server.end()
		}
		t.Logf("killall:\n%s", c.must(t, "killall"))
		<-c.proc.Done()
		if left := differences(before, look(t, h)); len(left) > 0 {
			t.Errorf("after killall (server was %s):\n%s", server.name, strings.Join(left, "\n"))
		}
	}
	if out := c.must(t, "killall"); out != "" {
		t.Errorf("a second killall found something to do:\n%s", out)
	}

	// A second start is like the first.
	c.restart(t)
	c.waitOwnNode(t)
	for _, p := range web {
		c.waitServing(t, ns, p.Name)
	}
	c.waitDeployment(t, ns, "web", 2)
	fresh := c.runPod(t, ns, testboxPod("fresh"))
	hosts.Until(t, podTimeout, "a fresh pod reaches the old deployment", func(ctx context.Context) error {
		_, err := c.ask(ctx, ns, fresh.Name, "/get", "url", "http://web/hostname")
		return err
	})
}

// waitServing waits until a pod answers: what the API says of a pod may
// be older than killall.
func (c *cluster) waitServing(t *testing.T, ns, pod string) {
	t.Helper()
	hosts.Until(t, podTimeout, "pod "+pod+" serves", func(ctx context.Context) error {
		_, err := c.ask(ctx, ns, pod, "/hostname")
		return err
	})
}

// mount shows a config map in the pod's directory of the same name.
func mount(pod *corev1.Pod, configMap string) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "mounted", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}},
	}})
	pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "mounted", MountPath: "/" + configMap})
}
