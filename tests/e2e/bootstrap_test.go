package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/bootstrapapi"
	"github.com/a4s-io/a4s/tests/hosts"
)

const (
	// selfImage is a4s itself.
	selfImage = "docker.io/a4s/a4s:e2e"
	// planeDir is where the documented manifests keep the control plane.
	planeDir = dataDir + "/control-plane"
)

// example is a documented manifest for a node and for the image of the test.
func example(t *testing.T, name, node string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "docs", "examples", "self-hosting", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("docker.io/a4s/a4s:VERSION", selfImage, "nodeName: NODE", "nodeName: "+node).
		Replace(string(content))
}

// tasks are the processes of the containers that run on a host, pauses
// included, by their IDs. A container that was started again has another ID.
func tasks(t *testing.T, n *node) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, line := range strings.Split(n.must(t, "ctr", "--namespace", "k8s.io", "tasks", "list"), "\n") {
		if f := strings.Fields(line); len(f) == 3 && f[2] == "RUNNING" {
			out[f[0]] = f[1]
		}
	}
	return out
}

// waitTasks waits until that many containers run.
func (n *node) waitTasks(t *testing.T, want int) map[string]string {
	t.Helper()
	var found map[string]string
	hosts.Until(t, soon, fmt.Sprintf("%d containers run", want), func(context.Context) error {
		if found = tasks(t, n); len(found) != want {
			return fmt.Errorf("%d run", len(found))
		}
		return nil
	})
	return found
}

// witness fails the test if one of the containers in first is gone or is
// another process now.
func witness(t *testing.T, n *node, when string, first map[string]string) {
	t.Helper()
	now := tasks(t, n)
	for id, pid := range first {
		if now[id] != pid {
			t.Errorf("%s container %s is process %q, it was %q", when, id, now[id], pid)
		}
	}
}

// secondPod is a bootstrap pod of another kind: several containers, one of them
// finite, and a volume. There is no pod network before there is a cluster.
func secondPod() *corev1.Pod {
	pod := testboxPod("helper")
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.Namespace = "default"
	pod.Spec.HostNetwork = true
	box := &pod.Spec.Containers[0]
	box.Ports = nil
	box.VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "scratch",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "idle", Image: busyboxImage,
		ImagePullPolicy: corev1.PullNever, Command: []string{"busybox", "sleep", "1000000"}})
	pod.Spec.InitContainers = []corev1.Container{{Name: "first", Image: busyboxImage,
		ImagePullPolicy: corev1.PullNever, Command: []string{"busybox", "true"}}}
	return pod
}

// TestSelfHosting: a node without a server runs the control plane of its own
// cluster, joins it, and hands the pods over to it; nothing of that restarts a
// container. Then the control plane replaces itself, and comes back from disk.
func TestSelfHosting(t *testing.T) {
	t.Parallel()
	h := newHost(t, "self")
	c := &cluster{node: node{host: h, args: []string{
		"agent", "--bootstrap-pod-api", "--server", "https://127.0.0.1:6443", "--token-file", planeDir + "/token",
	}}}
	c.reportOnFailure(t)
	if err := errors.Join(c.importImages(), c.importSelf(t),
		h.WriteFile(planeDir+"/token", "correct-horse-battery-staple\n"), c.start()); err != nil {
		t.Fatal(err)
	}

	helper := c.bootstrap(t, toYAML(t, secondPod()))
	withoutServer := c.waitTasks(t, 3) // two containers and a pause
	plane := c.bootstrap(t, example(t, "control-plane.yaml", h.Name))
	first := c.waitTasks(t, 5)
	witness(t, &c.node, "when a control plane starts", withoutServer)
	t.Logf("the containers are %v", first)

	c.connectToPlane(t)
	c.waitReady(t)
	c.waitNodeReady(t, h.Name, c.started)
	witness(t, &c.node, "after the join", first)
	for _, pod := range []*corev1.Pod{plane, helper} {
		c.waitPod(t, pod.Namespace, pod.Name, "is persisted", podIsReady)
		c.checkKept(t, pod)
	}
	witness(t, &c.node, "after the pods were persisted", first)
	if out := c.must(t, "status"); !strings.Contains(out, "kube-system/"+plane.Name) ||
		!strings.Contains(out, "default/"+helper.Name) {
		t.Errorf("status does not show the bootstrap pods:\n%s", out)
	}

	c.adopt(t, plane, helper)
	// Whatever an adoption would start has been seen after a sync of the pods.
	c.waitAlive(t)
	for _, pod := range []*corev1.Pod{plane, helper} {
		c.checkKept(t, pod)
	}
	witness(t, &c.node, "after the pods were adopted", first)

	step := func(name string, f func(*testing.T)) {
		if !t.Run(name, f) {
			t.FailNow() // the next ones begin where it ends
		}
	}
	step("a deleted pod is replaced", func(t *testing.T) { c.testReplacement(t, helper) })
	ofPlane := c.containers(t, "io.kubernetes.pod.uid", string(plane.UID))
	maps.DeleteFunc(first, func(id, _ string) bool { return !slices.Contains(ofPlane, id) })
	if len(first) != 2 {
		t.Fatalf("of the control plane there are the containers %v", first)
	}
	witness(t, &c.node, "after another pod was replaced", first)
	step("it comes back from disk", c.testBackFromDisk)
	step("the control plane replaces itself", func(t *testing.T) { c.testReplacement(t, plane) })
	step("its replacement comes back from disk", c.testBackFromDisk)
	step("it starts again when it has ended itself", c.testStartAgain)

	// All in all it is a cluster like any other.
	ns := c.namespace(t)
	c.runDeployment(t, ns, deployment("web", 2))
}

// importSelf makes the image of a4s and has the host import it.
func (n *node) importSelf(t *testing.T) error {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "a4s.tar")
	out, err := exec.CommandContext(t.Context(), filepath.Join(env.lab.Dir, "mkimage"),
		"--name", selfImage, "--file", env.binary+"=/a4s", "--dir", "/tmp=1777", "--entrypoint", "/a4s",
		"--out", archive).CombinedOutput()
	if err != nil {
		return fmt.Errorf("making the image of a4s: %w\n%s", err, out)
	}
	content, err := os.ReadFile(archive)
	if err != nil {
		return err
	}
	return n.host.WriteFile(filepath.Join(dataDir, "agent/images/a4s.tar"), string(content))
}

func toYAML(t *testing.T, obj any) string {
	t.Helper()
	b, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// bootstrap runs a pod through the API of the node, as soon as there is one.
func (c *cluster) bootstrap(t *testing.T, manifest string) *corev1.Pod {
	t.Helper()
	path := dataDir + "/bootstrap.yaml"
	if err := c.host.WriteFile(path, manifest); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, startTimeout, "the bootstrap pod API answers", func(context.Context) error {
		if !c.proc.Running() {
			t.Fatalf("a4s ended:\n%s", hosts.LastLines(c.proc.Log, 50))
		}
		if r := c.a4s(t, "bootstrap", "list"); r.ExitCode != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
	list := corev1.PodList{}
	if err := json.Unmarshal([]byte(c.must(t, "bootstrap", "apply", "-f", path, "-o", "json")), &list); err != nil ||
		len(list.Items) != 1 {
		t.Fatalf("%d pods were made, %v", len(list.Items), err)
	}
	return &list.Items[0]
}

// connectToPlane gives the host's commands the kubeconfig that the control
// plane writes on its volume.
func (c *cluster) connectToPlane(t *testing.T) {
	t.Helper()
	hosts.Until(t, startTimeout, "the control plane writes its kubeconfig", func(context.Context) error {
		content, err := os.ReadFile(c.host.Path(planeDir + "/admin.yaml"))
		if err != nil {
			return err
		}
		return c.host.WriteFile(kubeconfig, string(content))
	})
}

// checkKept compares what the server has with what the node ran.
func (c *cluster) checkKept(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	got, err := c.client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.UID != pod.UID || !bootstrapapi.IsBootstrap(got) {
		t.Errorf("pod %s has UID %s and annotations %v, the node ran it with UID %s", pod.Name, got.UID,
			got.Annotations, pod.UID)
	}
	for _, s := range got.Status.ContainerStatuses {
		if s.RestartCount != 0 || s.State.Running == nil {
			t.Errorf("container %s of %s: %d restarts, %+v", s.Name, pod.Name, s.RestartCount, s.State)
		}
	}
}

// containers are the IDs of those with a label, pauses included.
func (n *node) containers(t *testing.T, label, value string) []string {
	t.Helper()
	return strings.Fields(n.must(t, "ctr", "--namespace", "k8s.io", "containers", "list",
		"--quiet", fmt.Sprintf("labels.%q==%s", label, value)))
}

// adopt makes a ReplicaSet for each pod, and a Deployment that adopts one of
// them in turn.
func (c *cluster) adopt(t *testing.T, plane, helper *corev1.Pod) {
	t.Helper()
	path := dataDir + "/adopt.yaml"
	if err := c.host.WriteFile(path, example(t, "adopt.yaml", c.host.Name)); err != nil {
		t.Fatal(err)
	}
	c.must(t, "kubectl", "apply", "-f", path)

	one := int32(1)
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: helper.Labels},
		Spec: on(c.host.Name, secondPod()).Spec}
	selector := &metav1.LabelSelector{MatchLabels: helper.Labels}
	meta := metav1.ObjectMeta{Name: "helper", Namespace: helper.Namespace, Labels: helper.Labels}
	if _, err := c.client.AppsV1().ReplicaSets(helper.Namespace).Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &one, Selector: selector, Template: template},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range []*corev1.Pod{plane, helper} {
		c.waitPod(t, pod.Namespace, pod.Name, "is adopted", func(p *corev1.Pod) bool {
			owner := metav1.GetControllerOf(p)
			return owner != nil && owner.Kind == "ReplicaSet"
		})
	}
	if _, err := c.client.AppsV1().Deployments(helper.Namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: selector, Template: template},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if pods := c.waitDeployment(t, helper.Namespace, "helper", 1); len(pods) != 1 || pods[0].UID != helper.UID {
		t.Errorf("the Deployment has other pods than the one that was there: %+v", pods)
	}
}

// waitAlive waits until the node has given a sign of life from now on. Its
// status says the time of one only every few minutes.
func (c *cluster) waitAlive(t *testing.T) {
	t.Helper()
	now := time.Now()
	hosts.Until(t, podTimeout, "node "+c.host.Name+" is alive", func(ctx context.Context) error {
		lease, err := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, c.host.Name,
			metav1.GetOptions{})
		if err == nil && lease.Spec.RenewTime.Time.Before(now) {
			err = fmt.Errorf("its last sign is of %s", lease.Spec.RenewTime)
		}
		return err
	})
}

// testReplacement deletes a pod and waits for another of the same kind in its
// place. It may be the control plane itself.
func (c *cluster) testReplacement(t *testing.T, pod *corev1.Pod) {
	pods := c.client.CoreV1().Pods(pod.Namespace)
	old := c.uids(t, pod)
	for _, name := range old {
		if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	hosts.Until(t, startTimeout, "another pod is ready in the place of "+pod.Name, func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=" + pod.Labels["app"]})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("there are %d pods", len(list.Items))
		}
		p := &list.Items[0]
		if old[p.UID] != "" || !podIsReady(p) || p.Spec.NodeName != c.host.Name {
			return fmt.Errorf("%s on %s is %s: %+v", p.Name, p.Spec.NodeName, p.Status.Phase,
				p.Status.ContainerStatuses)
		}
		return nil
	})
	c.waitReady(t)
	c.waitAlive(t)
}

// uids are the pods with the label of pod.
func (c *cluster) uids(t *testing.T, pod *corev1.Pod) map[types.UID]string {
	t.Helper()
	list, err := c.client.CoreV1().Pods(pod.Namespace).List(t.Context(),
		metav1.ListOptions{LabelSelector: "app=" + pod.Labels["app"]})
	if err != nil {
		t.Fatal(err)
	}
	out := map[types.UID]string{}
	for _, p := range list.Items {
		out[p.UID] = p.Name
	}
	return out
}

// testBackFromDisk kills the node and the control plane that it runs. What is
// on disk has to be enough for both.
func (c *cluster) testBackFromDisk(t *testing.T) {
	others := tasks(t, &c.node)
	var planes []string
	for _, id := range c.containers(t, "io.kubernetes.container.name", "a4s") {
		if pid, ok := others[id]; ok {
			planes = append(planes, pid)
			delete(others, id)
		}
	}
	if len(planes) != 1 {
		t.Fatalf("there are the control planes %v", planes)
	}
	c.proc.Kill()
	run(t, c.host, "/bin/kill", "-KILL", planes[0])
	hosts.Until(t, soon, "the API is gone", func(ctx context.Context) error {
		if _, err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err == nil {
			return errors.New("it answers")
		}
		return nil
	})
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	c.waitReady(t)
	c.waitNodeReady(t, c.host.Name, c.started)
	// What did not have to be started again was not.
	witness(t, &c.node, "after the node came back", others)
}

// testStartAgain deletes the control plane together with what would replace it,
// and starts it again as it was started first.
func (c *cluster) testStartAgain(t *testing.T) {
	old := c.uids(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system",
		Labels: map[string]string{"app": "a4s-control-plane"}}})
	if err := c.client.AppsV1().ReplicaSets("kube-system").
		Delete(t.Context(), "control-plane", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, startTimeout, "the control plane has ended", func(context.Context) error {
		running := tasks(t, &c.node)
		for _, id := range c.containers(t, "io.kubernetes.container.name", "a4s") {
			if pid, ok := running[id]; ok {
				return fmt.Errorf("it is process %s", pid)
			}
		}
		return nil
	})
	// A node that has had a server waits for it; one that starts does not.
	c.proc.Kill()
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	again := c.bootstrap(t, strings.Replace(example(t, "control-plane.yaml", c.host.Name), "name: control-plane",
		"name: another", 1))
	c.waitReady(t)
	c.waitPod(t, again.Namespace, again.Name, "is persisted", podIsReady)
	c.checkKept(t, again)
	hosts.Until(t, podTimeout, "the old control plane is gone", func(context.Context) error {
		for uid, name := range c.uids(t, again) {
			if old[uid] != "" {
				return errors.New(name + " is there")
			}
		}
		return nil
	})
}
