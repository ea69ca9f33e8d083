package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/tests/hosts"
)

// TestPartitionPods: nodes take pods of all tenant partitions, whichever partition they are
// of (seed: system-tenanted pods, "Kubelet and pods").
func TestPartitionPods(t *testing.T) {
	t.Parallel()
	home := ownCluster(t, "pods-home", "--disable-agent")
	worker := newAgent(t, "pods-worker", home)
	home.waitNodeReady(t, worker.host.Name, worker.started)
	early := home.runOn(t, "kube-system", partPod("early", "main", worker.host.Name))
	tp2 := beginPartition(t, "pods-tp2", "tp2", home, "--service-cidr", "10.44.0.0/16",
		"--cluster-cidr", "10.142.0.0/16", "--bootstrap-pod-api")
	tp2.waitOwnNode(t)
	p := &partitionPods{home: home, tp2: tp2, worker: worker, of: map[string]*cluster{"main": home, "tp2": tp2}}
	p.copyNodes(t)

	for name, c := range p.of {
		if _, err := c.client.CoreV1().ConfigMaps("kube-system").
			Create(t.Context(), configMap("settings", name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		p.secret(t, name, "password")
	}
	p.secret(t, "main", "late")
	for name, c := range p.of {
		for _, node := range p.nodes() {
			c.createPod(t, "kube-system", partPod("x-"+node, name, node))
		}
	}
	t.Run("S3 equal names side by side", func(t *testing.T) {
		for name, c := range p.of {
			for _, node := range p.nodes() {
				pod := c.waitPodReady(t, "kube-system", "x-"+node)
				p.isItself(t, name, pod)
			}
		}
	})
	t.Run("S13 a partition joins without a restart of the agent", func(t *testing.T) {
		now := home.waitPodReady(t, "kube-system", "early")
		if now.UID != early.UID || containerID(now) != containerID(early) {
			t.Errorf("the pod from before is another one: %+v", now.Status)
		}
	})
	t.Run("S5 from the pod's partition only", func(t *testing.T) { p.testMissing(t) })
	t.Run("S6 a change of one partition", func(t *testing.T) { p.testChange(t) })
	t.Run("pods of tenants on nodes of another partition", func(t *testing.T) { p.testTenants(t) })
	t.Run("S9 names", func(t *testing.T) { p.testNames(t) })
	t.Run("S1 no DaemonSets of tenants", func(t *testing.T) { p.testNoDaemonSets(t) })
	t.Run("S2 DaemonSets on the nodes of all partitions", func(t *testing.T) { p.testDaemonSets(t) })
	t.Run("S4 workloads of equal names", func(t *testing.T) { p.testKinds(t) })
	t.Run("S4 pods that a node has by itself", func(t *testing.T) { p.testLocalPods(t) })
	t.Run("volumes", func(t *testing.T) { p.testVolumes(t) })
	t.Run("S8 attach and port-forward", func(t *testing.T) { p.testStreams(t) })
	t.Run("S8 top", func(t *testing.T) { p.testTop(t) })
	t.Run("S3 deletion", func(t *testing.T) {
		node := worker.host.Name
		stays := home.waitPodReady(t, "kube-system", "x-"+node)
		tp2.removed(t, "kube-system", "x-"+node)
		tp2.runOn(t, "kube-system", partPod("x-"+node, "tp2", node))
		now := home.waitPodReady(t, "kube-system", "x-"+node)
		if now.UID != stays.UID || containerID(now) != containerID(stays) {
			t.Errorf("that of home is another one: %+v", now.Status)
		}
	})
	t.Run("S10 a partition is down", func(t *testing.T) { p.testDown(t) })
	t.Run("a node is drained", func(t *testing.T) { p.testDrain(t) })
}

// partitionPods is a cluster of two partitions, with a node each.
type partitionPods struct {
	home, tp2 *cluster
	worker    *node // of home
	of        map[string]*cluster
}

func (p *partitionPods) nodes() []string { return []string{p.worker.host.Name, p.tp2.host.Name} }

// copyNodes makes each partition know the node of the other, and that it is alive, unless an
// importer does.
func (p *partitionPods) copyNodes(t *testing.T) {
	t.Helper()
	type direction struct {
		from, to *cluster
		node     string
	}
	all := []direction{{p.home, p.tp2, p.worker.host.Name}, {p.tp2, p.home, p.tp2.host.Name}}
	ctx, cancel := context.WithCancel(context.Background())
	var copying sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		copying.Wait()
	})
	for _, d := range all {
		var last *corev1.Node
		once := func(ctx context.Context) error {
			if node, err := d.from.client.CoreV1().Nodes().Get(ctx, d.node, metav1.GetOptions{}); err == nil {
				last = node
			} else if last == nil {
				return err
			}
			made, err := d.to.client.CoreV1().Nodes().Get(ctx, d.node, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				made, err = d.to.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
					ObjectMeta: metav1.ObjectMeta{Name: d.node, Labels: last.Labels}}, metav1.CreateOptions{})
			}
			if err != nil || made.Labels["a4s.io/resource-partition"] != "" {
				return err
			}
			made.Status = *last.Status.DeepCopy()
			for i := range made.Status.Conditions {
				made.Status.Conditions[i].LastHeartbeatTime = metav1.Now()
			}
			_, err = d.to.client.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{})
			return err
		}
		hosts.Until(t, soon, d.to.host.Name+" has a copy of node "+d.node, once)
		copying.Go(func() {
			tick := time.NewTicker(5 * time.Second)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					_ = once(ctx) // its server may be down
				case <-ctx.Done():
					return
				}
			}
		})
	}
}

// partPod is a pod that says of which partition it is, and has what it was given.
func partPod(name, partition, node string) *corev1.Pod {
	pod := shellPod(name, "echo I am of "+partition+"; trap 'exit 0' TERM; while :; do /bin/busybox sleep 1; done", "")
	pod.Spec.Volumes, pod.Spec.NodeName = nil, node
	box := &pod.Spec.Containers[0]
	box.VolumeMounts = nil
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	box.Env = []corev1.EnvVar{{Name: "POD_NAMESPACE", ValueFrom: field("metadata.namespace")},
		{Name: "POD_UID", ValueFrom: field("metadata.uid")}}
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	if !strings.HasPrefix(name, "x-") {
		return pod
	}
	box.Env = append(box.Env, fromSecret("PASSWORD", "password"))
	pod.Spec.Volumes = []corev1.Volume{{Name: "settings", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}}
	box.VolumeMounts = []corev1.VolumeMount{{Name: "settings", MountPath: "/settings"}}
	return pod
}

func fromSecret(variable, secret string) corev1.EnvVar {
	return corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: "value"}}}
}

// secret makes a Secret in the system space of a partition, whose name is in it.
func (p *partitionPods) secret(t *testing.T, partition, name string) {
	t.Helper()
	if _, err := p.of[partition].client.CoreV1().Secrets("kube-system").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"value": partition},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// runOn creates a pod that names its node, and waits until it is ready.
func (c *cluster) runOn(t *testing.T, ns string, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	c.createPod(t, ns, pod)
	return c.waitPodReady(t, ns, pod.Name)
}

// isItself checks what a pod has and says, asked through its own partition.
func (p *partitionPods) isItself(t *testing.T, partition string, pod *corev1.Pod) {
	t.Helper()
	c, ctx, at := p.of[partition], t.Context(), partition+"'s "+pod.Name
	if out := c.said(t, pod.Namespace, pod.Name); out != "I am of "+partition+"\n" {
		t.Errorf("%s: the logs are %q", at, out)
	}
	host := map[string]string{"main": "10.43.0.1", "tp2": "10.44.0.1"}[partition]
	for variable, want := range map[string]string{"POD_NAMESPACE": "kube-system", "POD_UID": string(pod.UID),
		"PASSWORD": partition, "KUBERNETES_SERVICE_HOST": host} {
		got, err := c.variable(ctx, pod.Namespace, pod.Name, variable)
		if err != nil || strings.TrimSpace(got) != want {
			t.Errorf("%s: %s is %q, not %s: %v", at, variable, got, want, err)
		}
	}
	if got := p.file(t, c, pod, "/settings/value"); got != partition {
		t.Errorf("%s: the settings are %q", at, got)
	}
	token := p.file(t, c, pod, "/var/run/secrets/kubernetes.io/serviceaccount/token")
	for name, other := range p.of {
		review, err := other.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
		if err != nil || review.Status.Authenticated != (name == partition) {
			t.Errorf("%s: its token at %s: %+v %v", at, name, review, err)
		}
	}
	hosts.Until(t, soon, "its events are in its partition", func(ctx context.Context) error {
		for name, of := range p.of {
			started, err := hasStarted(ctx, of.client, pod.UID)
			if err != nil {
				return err
			}
			if started != (name == partition) {
				return fmt.Errorf("%s: it is %v that %s says that it has started", at, started, name)
			}
		}
		return nil
	})
}

// variable is one of the environment of a pod.
func (c *cluster) variable(ctx context.Context, ns, pod, name string) (string, error) {
	return c.exec(ctx, ns, pod, "", "/bin/busybox", "sh", "-c", "echo $"+name)
}

// hasStarted reports whether there is an event that says so of a pod.
func hasStarted(ctx context.Context, client kubernetes.Interface, uid types.UID) (bool, error) {
	events, err := client.CoreV1().Events("kube-system").List(ctx, metav1.ListOptions{
		FieldSelector: "reason=Started,involvedObject.uid=" + string(uid)})
	return err == nil && len(events.Items) > 0, err
}

func (p *partitionPods) file(t *testing.T, c *cluster, pod *corev1.Pod, path string) string {
	t.Helper()
	got, err := c.exec(t.Context(), pod.Namespace, pod.Name, "", "/bin/busybox", "cat", path)
	if err != nil {
		t.Errorf("pod %s: %v", pod.Name, err)
	}
	return strings.TrimSpace(got)
}

// testMissing: what only another partition has does not exist.
func (p *partitionPods) testMissing(t *testing.T) {
	pod := partPod("waits", "tp2", p.worker.host.Name)
	pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, fromSecret("LATE", "late"))
	p.tp2.createPod(t, "kube-system", pod)
	p.tp2.waitPod(t, "kube-system", "waits", "waits for its secret", func(p *corev1.Pod) bool {
		for _, s := range p.Status.ContainerStatuses {
			if w := s.State.Waiting; w != nil && strings.Contains(w.Message, `secret "late" not found`) {
				return true
			}
		}
		return false
	})
	p.secret(t, "tp2", "late")
	p.tp2.waitPodReady(t, "kube-system", "waits")
	got, err := p.tp2.variable(t.Context(), "kube-system", "waits", "LATE")
	if err != nil || strings.TrimSpace(got) != "tp2" {
		t.Errorf("it got %q: %v", got, err)
	}
}

// testChange changes the object of one partition.
func (p *partitionPods) testChange(t *testing.T) {
	node := p.worker.host.Name
	if _, err := p.tp2.client.CoreV1().ConfigMaps("kube-system").
		Update(t.Context(), configMap("settings", "changed"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	of := p.tp2.waitPodReady(t, "kube-system", "x-"+node)
	hosts.Until(t, podTimeout, "the pod of tp2 sees the change", func(ctx context.Context) error {
		got, err := p.tp2.exec(ctx, "kube-system", of.Name, "", "/bin/busybox", "cat", "/settings/value")
		if err == nil && strings.TrimSpace(got) != "changed" {
			err = errors.New(got)
		}
		return err
	})
	other := p.home.waitPodReady(t, "kube-system", "x-"+node)
	if got := p.file(t, p.home, other, "/settings/value"); got != "main" {
		t.Errorf("that of home sees %q", got)
	}
}

// testTenants runs a pod of a tenant of each partition on the node of the other.
func (p *partitionPods) testTenants(t *testing.T) {
	for partition, node := range map[string]string{"main": p.tp2.host.Name, "tp2": p.worker.host.Name} {
		tenant := "of-" + partition
		p.home.must(t, "tenant", "create", tenant, "--partition", partition)
		c := *p.of[partition]
		c.client = c.inSpace(t, tenant)
		c.takesPods(t, "default")
		// They may not name a node, but its labels.
		pod := partPod("web", partition, "")
		pod.Spec.Tolerations = nil
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
		pod = c.runOn(t, "default", pod)
		if pod.Spec.NodeName != node {
			t.Errorf("tenant %s: the pod is on %s", tenant, pod.Spec.NodeName)
		}
		if out := c.said(t, "default", pod.Name); out != "I am of "+partition+"\n" {
			t.Errorf("tenant %s: the logs are %q", tenant, out)
		}
		asks := testboxPod("asks")
		asks.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
		c.runOn(t, "default", asks)
		api := map[string]string{"main": "10.43.0.1", "tp2": "10.44.0.1"}[partition]
		if got, err := c.inside(t, tenant, "asks", "/testbox", "dns", "kubernetes.default"); got != api {
			t.Errorf("tenant %s: the API is at %q: %v", tenant, got, err)
		}
		// By either server, with the tenant's names.
		for _, by := range p.of {
			client := by.inSpace(t, tenant)
			out, err := client.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{}).DoRaw(t.Context())
			if err != nil || string(out) != "I am of "+partition+"\n" {
				t.Errorf("through %s: %q %v", by.host.Name, out, err)
			}
		}
	}
}

// inside runs a command in a pod of a tenant's namespace default.
func (c *cluster) inside(t *testing.T, tenant, pod string, words ...string) (string, error) {
	t.Helper()
	composite := *c
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	composite.client = client
	out, err := composite.exec(t.Context(), "default."+tenant, pod, "", words...)
	return strings.TrimSpace(out), err
}

// testNames: pods get the names of their partition, on whatever node they are.
func (p *partitionPods) testNames(t *testing.T) {
	for name, c := range p.of {
		same, err := c.client.CoreV1().Services("kube-system").
			Create(t.Context(), service("same", "nobody"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		api := map[string]string{"main": "10.43.0.1", "tp2": "10.44.0.1"}[name]
		for _, node := range p.nodes() {
			pod := testboxPod("names-" + node)
			pod.Spec.NodeName, pod.Spec.Tolerations = node, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			c.runOn(t, "kube-system", pod)
			for asked, want := range map[string]string{"same": same.Spec.ClusterIP,
				"same.kube-system.svc.cluster.local": same.Spec.ClusterIP, "kubernetes.default": api} {
				hosts.Until(t, soon, fmt.Sprintf("%s's pod on %s finds %s", name, node, asked),
					func(ctx context.Context) error {
						got, err := c.exec(ctx, "kube-system", pod.Name, "", "/testbox", "dns", asked)
						if err == nil && strings.TrimSpace(got) != want {
							err = fmt.Errorf("%s, not %s", got, want)
						}
						return err
					})
			}
		}
	}
}

// testDown: a partition that is down leaves the pods of others alone, and its own run on, also
// across a restart of the agent.
func (p *partitionPods) testDown(t *testing.T) {
	node := p.worker.host.Name
	before := map[*cluster]*corev1.Pod{}
	for _, c := range p.of {
		before[c] = c.waitPodReady(t, "kube-system", "x-"+node)
	}
	// One that hangs costs the others nothing: the kubelet has words for it all the time.
	if err := p.tp2.host.Unplug(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		p.home.runOn(t, "kube-system", partPod(fmt.Sprint("while-it-hangs-", i), "main", node))
	}
	if err := p.tp2.host.Plug(); err != nil {
		t.Fatal(err)
	}
	p.tp2.runOn(t, "kube-system", partPod("after-it-hung", "tp2", node))
	p.tp2.proc.Kill()
	p.home.runOn(t, "kube-system", partPod("while-down", "main", node))
	p.worker.proc.Kill()
	if err := p.worker.start(); err != nil {
		t.Fatal(err)
	}
	p.home.waitNodeReady(t, node, p.worker.started)
	p.home.runOn(t, "kube-system", partPod("after-restart", "main", node))
	p.home.removed(t, "kube-system", "while-down")
	p.tp2.restart(t)
	for name, c := range p.of {
		c.unchanged(t, before[c])
		if out := c.said(t, "kube-system", "x-"+node); out != "I am of "+name+"\n" {
			t.Errorf("%s: the logs are %q", name, out)
		}
	}
	p.tp2.runOn(t, "kube-system", partPod("when-back", "tp2", node))
}
