package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// fixture is what a failure must not change: pods, in the space of the system
// and in that of a tenant, and what they use.
type fixture struct {
	c, tenant *cluster
	ns        string
	fresh     int    // pods that were started after failures
	address   string // of a pod on the server, while that is down
}

func newFixture(t *testing.T, c *cluster, pods ...*corev1.Pod) *fixture {
	t.Helper()
	f := &fixture{c: c, tenant: c.makeTenant(t, "kept"), ns: c.namespace(t)}
	if _, err := c.client.CoreV1().ConfigMaps(f.ns).
		Create(t.Context(), configMap("kept", "value"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "kept"},
		StringData: map[string]string{"key": "value"}}
	if _, err := c.client.CoreV1().Secrets(f.ns).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stays := on(c.host.Name, testboxPod("stays"))
	mount(stays, "kept")
	pods = append(pods, stays)
	for _, pod := range pods {
		patient(&pod.Spec)
		c.createPod(t, f.ns, pod)
	}
	web := deployment("web", 2)
	web.Spec.Template.Spec.NodeSelector = stays.Spec.NodeSelector
	patient(&web.Spec.Template.Spec)
	c.runDeployment(t, f.ns, web)
	c.createService(t, f.ns, service("web", "web"))
	own := on(c.host.Name, testboxPod("own"))
	patient(&own.Spec)
	f.tenant.runPod(t, "default", own)
	for _, pod := range pods {
		c.waitPodReady(t, f.ns, pod.Name)
	}
	return f
}

// patient lets a pod stay on its node for as long as that is away; by default
// it would be replaced after five minutes.
func patient(spec *corev1.PodSpec) {
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} { // a tenant names them
		spec.Tolerations = append(spec.Tolerations,
			corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	}
}

func (f *fixture) identify(t *testing.T) identity {
	t.Helper()
	all := identify(t, f.c.client, f.ns)
	for name, value := range identify(t, f.tenant.client, "default") {
		all[ofTenant+name] = value
	}
	nodes, err := f.c.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		all["node "+n.Name] = string(n.UID) + " " + n.Spec.PodCIDR
	}
	return all
}

// pods returns those of the fixture, the tenant's last.
func (f *fixture) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := f.c.client.CoreV1().Pods(f.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	own, err := f.tenant.client.CoreV1().Pods("default").Get(ctx, "own", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return append(list.Items, *own), nil
}

// waitServing waits until each pod says itself that it serves, and the service
// reaches its pods by name. What the API tells may be older than the failure.
func (f *fixture) waitServing(t *testing.T) {
	t.Helper()
	hosts.Until(t, podTimeout, "all pods serve", func(ctx context.Context) error {
		pods, err := f.pods(ctx)
		if err != nil {
			return err
		}
		for _, p := range pods {
			c := f.c
			if p.Name == "own" {
				c = f.tenant
			}
			if !podIsReady(&p) {
				return fmt.Errorf("pod %s is not ready", p.Name)
			}
			if _, err := c.ask(ctx, p.Namespace, p.Name, "/hostname"); err != nil {
				return err
			}
		}
		_, err = f.c.ask(ctx, f.ns, "stays", "/get", "url", "http://web/hostname")
		return err
	})
}

// podsAnswer checks that the pods of the server's node live while it is down.
func (f *fixture) podsAnswer(t *testing.T) {
	t.Helper()
	if f.c.proc.Running() {
		t.Fatal("a4s still runs")
	}
	run(t, f.c.host, env.testbox, "get", "http://"+f.address+":8080/hostname")
}

// runsPods runs a pod on each node to its end and removes it.
func (f *fixture) runsPods(t *testing.T) {
	t.Helper()
	nodes, err := f.c.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		f.fresh++
		name := fmt.Sprintf("fresh-%d", f.fresh)
		if out := f.c.finishPod(t, f.ns, on(n.Name, testboxPod(name, "echo", name))); !strings.Contains(out, name) {
			t.Errorf("a new pod on %s printed %q", n.Name, out)
		}
		f.c.removed(t, f.ns, name)
	}
}

// restartCounts returns how often the containers on the server's node were
// restarted, by pod.
func (f *fixture) restartCounts(t *testing.T) map[string]int32 {
	t.Helper()
	pods, err := f.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int32{}
	for _, p := range pods {
		if p.Spec.NodeName == f.c.host.Name {
			for _, s := range p.Status.ContainerStatuses {
				counts[p.Name] = s.RestartCount
			}
		}
	}
	return counts
}

// waitRestarted waits until each container was restarted since before.
func (f *fixture) waitRestarted(t *testing.T, before map[string]int32) {
	t.Helper()
	hosts.Until(t, podTimeout, "all containers were started again", func(context.Context) error {
		now := f.restartCounts(t)
		for pod, n := range before {
			if now[pod] <= n {
				return fmt.Errorf("that of %s was not: %d restarts", pod, now[pod])
			}
		}
		return nil
	})
}

// writeUntilEnd writes objects until the server has ended, and checks that it
// said why: want and the directory.
func (f *fixture) writeUntilEnd(t *testing.T, want string) {
	t.Helper()
	c, written := f.c, 0
	pod, err := c.client.CoreV1().Pods(f.ns).Get(t.Context(), "stays", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.address = pod.Status.PodIP
	hosts.Until(t, soon, "the server has ended", func(ctx context.Context) error {
		for c.proc.Running() {
			object := configMap("filler", strings.Repeat(strconv.Itoa(written%10), 512<<10))
			if _, err := c.client.CoreV1().ConfigMaps("default").
				Create(ctx, object, metav1.CreateOptions{}); err != nil {
				return err
			}
			written++
			if err := c.client.CoreV1().ConfigMaps("default").
				Delete(ctx, object.Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	noTrace(t, c.proc.Output())
	if code, err := c.proc.ExitCode(stopTimeout); err != nil || code != 2 {
		t.Errorf("exit code %d (%v), want 2", code, err)
	}
	last := ""
	for line := range strings.Lines(hosts.LastLines(c.proc.Log, 5)) {
		if strings.HasPrefix(line, "a4s:") {
			last = line
		}
	}
	if !strings.Contains(last, dataDir) || !strings.Contains(last, want) {
		t.Errorf("the last line does not tell of %s: %q\n%s", want, last, hosts.LastLines(c.proc.Log, 20))
	}
	t.Logf("after %d writes: %s", written, last)
}

// processes returns the command lines of a host by process id as the test sees
// it.
func (n *node) processes(t *testing.T) map[int]string {
	t.Helper()
	ns, err := os.Readlink(n.host.Path("/proc/1/ns/pid"))
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	all := map[int]string{}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if own, e := os.Readlink(filepath.Join(dir, "ns/pid")); errors.Join(err, e) != nil || own != ns {
			continue
		}
		if cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil && len(cmdline) > 0 {
			all[pid] = strings.ReplaceAll(string(cmdline), "\x00", " ")
		}
	}
	return all
}
