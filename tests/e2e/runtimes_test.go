package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/workload"
	"github.com/a4s-io/a4s/tests/hosts"
)

// The second runtime of a node: another containerd, which is registered for
// the pods of type vm. What it runs are containers; what counts here is where.
const (
	secondSocket = "/run/second/containerd.sock"
	secondConfig = "/var/lib/containerd/config.toml"
	secondBinary = "/var/lib/containerd/containerd"
)

// The primary runtime may be away for gracePeriods status periods of 1 s. The
// kubelet looks at it every 5 s.
const (
	gracePeriods = 12
	kubeletLooks = 5 * time.Second
)

// runtimesTest is a cluster whose node has two runtimes.
type runtimesTest struct {
	*cluster
	ns     string
	second *hosts.Process
}

// Losing a runtime and getting it back, in each direction: what nodes and pods
// become of it, and what is placed where. It stops real processes.
func TestRuntimesOfANode(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "runtimes", "--runtime", "second,vm,unix://"+secondSocket,
		"--runtime-grace-periods", fmt.Sprint(gracePeriods), "--kubelet-arg", "node-status-update-frequency=1s")
	c.waitOwnNode(t)
	r := &runtimesTest{cluster: c, ns: c.namespace(t)}
	defer func() {
		if t.Failed() && r.second != nil {
			t.Logf("the log of the second runtime ends:\n%s", hosts.LastLines(r.second.Log, 30))
		}
	}()

	// At first there is nothing at the second runtime's socket.
	r.waitCondition(t, workload.ContainerRuntimeReady, corev1.ConditionTrue)
	unknown := r.waitCondition(t, workload.VMRuntimeReady, corev1.ConditionUnknown)
	if !strings.Contains(unknown.Message, secondSocket) {
		t.Errorf("the message does not say where nothing answers: %s", unknown.Message)
	}
	plain := r.runPod(t, r.ns, testboxPod("plain"))
	r.createPod(t, r.ns, vmPod("first"))
	r.waitsFor(t, "first", "0/1 nodes are available: 1 node(s) had no ready vm runtime (VmRuntimeReady is Unknown: ")

	r.startSecond(t)
	r.waitCondition(t, workload.VMRuntimeReady, corev1.ConditionTrue)
	since := time.Now()
	first := r.waitPod(t, r.ns, "first", "is placed", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
	t.Logf("a waiting pod was placed %s after its runtime became ready", time.Since(since).Round(time.Millisecond))
	first = r.waitPodReady(t, r.ns, first.Name)
	tenant := c.makeTenant(t, "machines")
	theirs := tenant.runPod(t, "default", vmPod("theirs"))
	for pod, want := range map[*corev1.Pod][2]bool{plain: {true, false}, first: {false, true}, theirs: {false, true}} {
		if got := [2]bool{r.runs(t, "/run/a4s/containerd/containerd.sock", pod),
			r.runs(t, secondSocket, pod)}; got != want {
			t.Errorf("pod %s runs on the runtimes %v, want %v", pod.Name, got, want)
		}
	}
	r.waitAnswer(t, r.ns, "plain", "first", "/get", "url", "http://"+first.Status.PodIP+":8080/hostname")
	r.showsRuntimes(t)

	t.Run("losing another than the primary", func(t *testing.T) { r.loseSecond(t, plain, first) })
	t.Run("restarting a4s without it", func(t *testing.T) { r.restartWithoutSecond(t, plain, first) })
	t.Run("short glitch of the primary", func(t *testing.T) { r.shortGlitch(t, plain, first) })
	t.Run("long loss of the primary", func(t *testing.T) { r.longLoss(t, plain, first) })
	t.Run("removing and adding", func(t *testing.T) { r.removeAndAdd(t, plain) })
}

// vmPod is a pod of the type vm, by its class.
func vmPod(name string) *corev1.Pod {
	p := testboxPod(name)
	class := string(workload.VM)
	p.Spec.RuntimeClassName = &class
	return p
}

// startSecond starts the second containerd like the one that a4s carries, but
// in other directories, and gives it the images.
func (r *runtimesTest) startSecond(t *testing.T) {
	t.Helper()
	content, err := os.ReadFile(r.host.Path(dataDir + "/agent/etc/containerd/config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer(`"`+dataDir+"/agent/containerd", `"/var/lib/containerd`, `"/run/a4s/containerd`,
		`"/run/second`).Replace(string(content))
	if !strings.Contains(config, secondSocket) {
		t.Fatalf("no socket %s in\n%s", secondSocket, config)
	}
	if err := r.host.WriteFile(secondConfig, config); err != nil {
		t.Fatal(err)
	}
	// What ran before is found again by the shim, which is looked for there.
	shim := regexp.MustCompile(`runtime_path = "(.+)/[^/]+"`).FindStringSubmatch(config)
	snapshotter := regexp.MustCompile(`snapshotter = "(\w+)"`).FindStringSubmatch(config)
	if shim == nil || snapshotter == nil {
		t.Fatal(config)
	}
	// The name that it is called by makes a4s a containerd.
	if err := os.Symlink(env.binary, r.host.Path(secondBinary)); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	started := time.Now()
	if r.second, err = r.host.Start("/usr/bin/env", "PATH="+shim[1]+":"+os.Getenv("PATH"), secondBinary,
		"--config", secondConfig); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, soon, "the second runtime serves", func(context.Context) error {
		if result := r.a4s(t, "ctr", "--address", secondSocket, "version"); result.ExitCode != 0 {
			return errors.New(result.Stderr)
		}
		return nil
	})
	t.Logf("the second runtime serves after %s", time.Since(started).Round(time.Millisecond))
	archives, err := filepath.Glob(r.host.Path(dataDir + "/data/*/images/*.tar"))
	if err != nil || len(archives) == 0 {
		t.Fatal(err, archives)
	}
	prefix := r.host.Path("/")
	for _, archive := range append(archives, r.host.Path(dataDir+"/agent/images/testbox.tar")) {
		run(t, r.host, env.binary, "ctr", "--address", secondSocket, "--namespace", "k8s.io", "images",
			"import", "--local",
			"--snapshotter", snapshotter[1], "/"+strings.TrimPrefix(strings.TrimPrefix(archive, prefix), "/"))
	}
}

// runs reports whether a runtime has the container of the pod.
func (r *runtimesTest) runs(t *testing.T, socket string, pod *corev1.Pod) bool {
	t.Helper()
	id := containerID(pod)
	list := run(t, r.host, env.binary, "ctr", "--address", socket, "--namespace", "k8s.io",
		"containers", "list", "--quiet")
	return id != "" && strings.Contains(list, id)
}

func (r *runtimesTest) node(t *testing.T) *corev1.Node {
	t.Helper()
	n, err := r.client.CoreV1().Nodes().Get(t.Context(), r.host.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// waitsFor waits until the pod could not be placed for this reason.
func (c *cluster) waitsFor(t *testing.T, ns, pod, reason string) {
	t.Helper()
	hosts.Until(t, soon, "pod "+pod+" waits because of "+reason, func(ctx context.Context) error {
		events, err := c.client.CoreV1().Events(ns).List(ctx,
			metav1.ListOptions{FieldSelector: "reason=FailedScheduling,involvedObject.name=" + pod})
		if err != nil {
			return err
		}
		var said []string
		for _, e := range events.Items {
			if strings.Contains(e.Message, reason) {
				return nil
			}
			said = append(said, e.Message)
		}
		return fmt.Errorf("the events say %q", said)
	})
}

func (r *runtimesTest) waitsFor(t *testing.T, pod, reason string) {
	t.Helper()
	r.cluster.waitsFor(t, r.ns, pod, reason)
}

// unharmed checks that pods still run in the containers that they began in.
func (r *runtimesTest) unharmed(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, before := range pods {
		now := r.waitPodReady(t, r.ns, before.Name)
		if containerID(now) != containerID(before) || now.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("pod %s was restarted: %+v", before.Name, now.Status.ContainerStatuses[0])
		}
	}
}

// loseSecond kills the runtime of the type vm. The node stays ready, what runs
// goes on, and what is new waits.
func (r *runtimesTest) loseSecond(t *testing.T, plain, first *corev1.Pod) {
	nodeReady, vmReady := r.observe(t, corev1.NodeReady), r.observe(t, workload.VMRuntimeReady)
	vmReady.wait(t, soon, "True")
	killed := time.Now()
	r.second.Kill()
	took := vmReady.wait(t, soon, "Unknown", "False").Sub(killed)
	t.Logf("the condition changed %s after the end of the runtime", took.Round(time.Millisecond))
	if took > 8*time.Second { // promised is one, on a machine that does nothing else
		t.Errorf("the condition changed only after %s", took)
	}
	r.createPod(t, r.ns, vmPod("second"))
	r.waitsFor(t, "second", "1 node(s) had no ready vm runtime (VmRuntimeReady is ")
	r.runPod(t, r.ns, testboxPod("plain-meanwhile"))

	// A pod that comes without the scheduler is refused, once.
	hosts.Until(t, soon, "the loss is no news", func(context.Context) error {
		if d := time.Since(killed); d < 4*time.Second {
			return fmt.Errorf("it was %s ago", d)
		}
		return nil
	})
	forced := vmPod("forced")
	forced.Spec.NodeName = r.host.Name
	r.createPod(t, r.ns, forced)
	refused := r.waitPod(t, r.ns, "forced", "is refused", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed
	})
	if refused.Status.Reason != "NodeRuntimeReadiness" ||
		!strings.Contains(refused.Status.Message, "no ready vm runtime") {
		t.Errorf("the pod was refused with %q: %s", refused.Status.Reason, refused.Status.Message)
	}
	hosts.Until(t, soon, "an event tells of the refusal", func(ctx context.Context) error {
		events, err := r.client.CoreV1().Events(r.ns).List(ctx,
			metav1.ListOptions{FieldSelector: "reason=NodeRuntimeReadiness,involvedObject.name=forced"})
		if err == nil &&
			(len(events.Items) != 1 || events.Items[0].Count > 1 || events.Items[0].Type != corev1.EventTypeWarning) {
			err = fmt.Errorf("the events are %+v", events.Items)
		}
		return err
	})

	r.startSecond(t)
	back := time.Now()
	r.waitPod(t, r.ns, "second", "is placed", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
	t.Logf("the pod that waited was placed %s after the runtime had its images again",
		time.Since(back).Round(time.Millisecond))
	r.waitPodReady(t, r.ns, "second")
	r.unharmed(t, plain, first)
	if got := nodeReady.get(); got != "True" {
		t.Errorf("the node was ready: %s", got)
	}
	if got := r.waitPod(t, r.ns, "forced", "exists",
		func(*corev1.Pod) bool { return true }); got.Status.Reason != "NodeRuntimeReadiness" ||
		len(got.Status.ContainerStatuses) != 0 && got.Status.ContainerStatuses[0].State.Running != nil {
		t.Errorf("the refused pod became %+v", got.Status)
	}
}

// restartWithoutSecond starts a4s anew while the runtime of a running pod is
// away: the pod is neither refused nor restarted.
func (r *runtimesTest) restartWithoutSecond(t *testing.T, plain, first *corev1.Pod) {
	r.second.Kill()
	r.proc.Kill()
	r.restart(t)
	r.waitOwnNode(t)
	r.waitCondition(t, workload.VMRuntimeReady, corev1.ConditionUnknown)
	r.runPod(t, r.ns, testboxPod("after-restart"))
	if p := r.waitPod(t, r.ns, first.Name, "exists",
		func(*corev1.Pod) bool { return true }); p.Status.Phase != corev1.PodRunning {
		t.Errorf("pod %s became %+v", first.Name, p.Status)
	}
	r.startSecond(t)
	r.waitCondition(t, workload.VMRuntimeReady, corev1.ConditionTrue)
	r.unharmed(t, plain, first)
}

// primary is the process of the primary runtime.
func (r *runtimesTest) primary(t *testing.T) int {
	t.Helper()
	return childNamed(t, r.proc.PID(), "containerd")
}

// shortGlitch stops the primary runtime for less than the grace period.
func (r *runtimesTest) shortGlitch(t *testing.T, plain, first *corev1.Pod) {
	nodeReady, runtime := r.observe(t, corev1.NodeReady), r.observe(t, workload.ContainerRuntimeReady)
	runtime.wait(t, soon, "True")
	pid := r.primary(t)
	stopped := time.Now()
	r.signal(t, pid, unix.SIGSTOP)
	took := runtime.wait(t, soon, "Unknown", "False").Sub(stopped)
	t.Logf("the condition changed %s after the runtime stopped to answer", took.Round(time.Millisecond))
	// The kubelet is to look meanwhile.
	hosts.Until(t, soon, "half of the grace period is over", func(context.Context) error {
		if d := time.Since(stopped); d < gracePeriods*time.Second/2 {
			return fmt.Errorf("%s are", d)
		}
		return nil
	})
	r.signal(t, pid, unix.SIGCONT)
	r.waitCondition(t, workload.ContainerRuntimeReady, corev1.ConditionTrue)
	r.unharmed(t, plain, first)
	r.runPod(t, r.ns, testboxPod("after-glitch"))
	if got := nodeReady.get(); got != "True" {
		t.Errorf("the node was ready: %s", got)
	}
}

// longLoss stops the primary runtime for longer than that.
func (r *runtimesTest) longLoss(t *testing.T, plain, first *corev1.Pod) {
	nodeReady := r.observe(t, corev1.NodeReady)
	nodeReady.wait(t, soon, "True")
	pid := r.primary(t)
	stopped := time.Now()
	r.signal(t, pid, unix.SIGSTOP)
	took := nodeReady.wait(t, soon, "False").Sub(stopped)
	t.Logf("the node was not ready %s after the runtime stopped to answer", took.Round(time.Millisecond))
	if grace := gracePeriods * time.Second; took < grace || took > grace+2*kubeletLooks+20*time.Second {
		t.Errorf("the node was not ready after %s, want %s and a look of the kubelet", took, grace)
	}
	// Virtual machines depend on what runs on the primary runtime.
	r.createPod(t, r.ns, vmPod("depends"))
	r.waitsFor(t, "depends", "1 node(s) had no ready primary runtime for a pod of type vm (ContainerRuntimeReady is ")
	if c := condition(r.node(t), workload.VMRuntimeReady); c == nil || c.Status != corev1.ConditionTrue {
		t.Errorf("the other runtime's condition is %+v", c)
	}
	r.signal(t, pid, unix.SIGCONT)
	r.waitCondition(t, corev1.NodeReady, corev1.ConditionTrue)
	r.waitPodReady(t, r.ns, "depends")
	r.unharmed(t, plain, first)
}

// removeAndAdd takes the second runtime out and registers it again, while the
// node runs.
func (r *runtimesTest) removeAndAdd(t *testing.T, plain *corev1.Pod) {
	if result := r.a4s(t, "runtime", "remove", "second"); result.ExitCode == 0 {
		t.Errorf("a runtime with pods was removed: %s", result.Stdout)
	}
	pods, err := r.client.CoreV1().Pods(r.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.Spec.RuntimeClassName != nil {
			r.deletePod(t, r.ns, p.Name)
		}
	}
	r.deletePod(t, "default.machines", "theirs")
	// The kubelet removes what is left of pods once a minute.
	hosts.Until(t, podTimeout, "the runtime without pods is removed", func(context.Context) error {
		if result := r.a4s(t, "runtime", "remove", "second"); result.ExitCode != 0 {
			return errors.New(result.Stderr)
		}
		return nil
	})
	hosts.Until(t, soon, "the condition of a type without a runtime is gone", func(context.Context) error {
		if c := condition(r.node(t), workload.VMRuntimeReady); c != nil {
			return fmt.Errorf("it is %+v", *c)
		}
		return nil
	})
	r.createPod(t, r.ns, vmPod("late"))
	r.waitsFor(t, "late", "1 node(s) had no ready vm runtime (none is registered)")
	r.must(t, "runtime", "add", "second", "vm", "unix://"+secondSocket)
	r.waitPodReady(t, r.ns, "late")
	r.waitCondition(t, workload.VMRuntimeReady, corev1.ConditionTrue)
	r.unharmed(t, plain)
}

func (r *runtimesTest) deletePod(t *testing.T, ns, name string) {
	t.Helper()
	pods := r.client.CoreV1().Pods(ns)
	if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, podTimeout, "pod "+name+" is gone", func(ctx context.Context) error {
		if _, err := pods.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
}

func (r *runtimesTest) signal(t *testing.T, pid int, s unix.Signal) {
	t.Helper()
	if err := unix.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
	if s == unix.SIGSTOP {
		t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGCONT) })
	}
}

// showsRuntimes checks what people see.
func (r *runtimesTest) showsRuntimes(t *testing.T) {
	t.Helper()
	if got := r.node(t).Annotations[workload.PrimaryAnnotation]; got != "container" {
		t.Errorf("the primary runtime is said to be of type %q", got)
	}
	for _, words := range [][]string{{"kubectl", "describe", "node", r.host.Name}, {"status", "-o", "wide"}} {
		out := r.must(t, words...)
		for _, want := range []string{"containerd, the primary runtime (containerd ", "second (containerd "} {
			if !strings.Contains(out, want) {
				t.Errorf("a4s %s lacks %q:\n%s", strings.Join(words, " "), want, out)
			}
		}
	}
	var s struct {
		Nodes []struct {
			Runtimes []struct {
				WorkloadType, Ready string
				Primary             bool
			}
		}
	}
	if err := json.Unmarshal([]byte(r.must(t, "status", "-o", "json")), &s); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(s.Nodes), "[{[{container True true} {vm True false}]}]"; got != want {
		t.Errorf("a4s status has the runtimes %s, want %s", got, want)
	}
}
