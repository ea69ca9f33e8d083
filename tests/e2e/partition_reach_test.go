package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/hosts"
)

// attach says a line to the container of a pod and returns what it says until its end.
func (c *cluster) attach(ctx context.Context, ns, pod, line string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	req := c.client.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name(pod).SubResource("attach").
		VersionedParams(&corev1.PodAttachOptions{Stdin: true, Stdout: true}, paramCodec)
	executor, err := remotecommand.NewWebSocketExecutor(c.config, "GET", req.URL().String())
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = executor.StreamWithContext(ctx,
		remotecommand.StreamOptions{Stdin: strings.NewReader(line + "\n"), Stdout: &out})
	return strings.TrimSpace(out.String()), err
}

// through is what a port of a pod answers through the API server.
func (c *cluster) through(t *testing.T, ns, pod, port, path string) (string, error) {
	t.Helper()
	url := c.client.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name(pod).
		SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialer(url, c.config)
	if err != nil {
		return "", err
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	var errs bytes.Buffer
	forward, err := portforward.New(dialer, []string{"0:" + port}, stop, ready, io.Discard, &errs)
	if err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- forward.ForwardPorts() }()
	defer func() {
		close(stop)
		<-ended
	}()
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		return "", fmt.Errorf("%w %s", err, &errs)
	}
	ports, err := forward.GetPorts()
	if err != nil {
		return "", err
	}
	return fetch(t.Context(), fmt.Sprintf("http://127.0.0.1:%d%s", ports[0].Local, path))
}

// testStreams: attach and port-forward lead to the pod of the partition that is asked, and of
// tenants through any server.
func (p *partitionPods) testStreams(t *testing.T) {
	node, ctx := p.worker.host.Name, t.Context()
	for name, c := range p.of {
		pod := partPod("listens", name, node)
		pod.Spec.Containers[0].Args = []string{"while read line; do echo " + name + " heard $line; done"}
		pod.Spec.Containers[0].Stdin, pod.Spec.Containers[0].StdinOnce = true, true
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		c.createPod(t, "kube-system", pod)
	}
	reaches := func(what string, c *cluster, ns, pod string) {
		t.Helper()
		instance, err := c.through(t, ns, pod, "8080", "/instance")
		if logs := c.logs(t, ns, pod); err != nil || instance == "" || !strings.Contains(logs, instance) {
			t.Errorf("%s: port-forward to %s reaches %q, which is %q: %v", what, pod, instance, logs, err)
		}
	}
	for name, c := range p.of {
		c.waitPodReady(t, "kube-system", "listens")
		if got, err := c.attach(ctx, "kube-system", "listens", "words"); err != nil || got != name+" heard words" {
			t.Errorf("%s: attach says %q: %v", name, got, err)
		}
		for _, node := range p.nodes() { // testNames has made them
			reaches(name, c, "kube-system", "names-"+node)
		}
		for at, by := range p.of {
			own := *by
			own.config, own.client = tenantapi.InSpace(by.config, "of-"+name), by.inSpace(t, "of-"+name)
			reaches("of-"+name+" through "+at, &own, "default", "asks")
		}
	}
}

// testTop: what a partition shows is of its own pods, and of the nodes of all.
func (p *partitionPods) testTop(t *testing.T) {
	for name, c := range p.of {
		mib := map[string]string{"main": "8", "tp2": "64"}[name]
		pod := testboxPod("eats", "eat", mib)
		pod.Spec.NodeName, pod.Spec.Tolerations = p.worker.host.Name, []corev1.Toleration{
			{Operator: corev1.TolerationOpExists}}
		c.createPod(t, "kube-system", pod)
	}
	for name, c := range p.of {
		hosts.Until(t, podTimeout, name+" shows what its own pods use", func(context.Context) error {
			r := c.a4s(t, "kubectl", "top", "pods", "-n", "kube-system", "--no-headers")
			rows := map[string]int{}
			for line := range strings.Lines(r.Stdout) {
				if f := strings.Fields(line); len(f) == 3 { // NAME CPU(cores) MEMORY(bytes)
					if _, twice := rows[f[0]]; twice {
						t.Fatalf("%s is there twice: %s", f[0], r.Stdout)
					}
					rows[f[0]], _ = strconv.Atoi(strings.TrimSuffix(f[2], "Mi"))
				}
			}
			_, early := rows["early"] // of home only
			_, waits := rows["waits"] // of tp2 only
			if waits && name == "main" || early && name == "tp2" {
				t.Fatalf("%s shows pods of others: %s", name, r.Stdout)
			}
			eats := rows["eats"]
			_, near := rows["x-"+p.nodes()[0]]
			_, far := rows["x-"+p.nodes()[1]]
			if early == waits || !near || !far || eats == 0 || (eats > 48) != (name == "tp2") {
				return fmt.Errorf("%d: %s%s", r.ExitCode, r.Stdout, r.Stderr)
			}
			return nil
		})
		hosts.Until(t, podTimeout, name+" shows what all nodes use", func(context.Context) error {
			r := c.a4s(t, "kubectl", "top", "nodes", "--no-headers")
			for _, node := range p.nodes() {
				found := false
				for line := range strings.Lines(r.Stdout) {
					// NAME CPU(cores) CPU(%) MEMORY(bytes) MEMORY(%)
					f := strings.Fields(line)
					found = found || len(f) == 5 && f[0] == node && strings.HasSuffix(f[1], "m") && f[1] != "0m" &&
						strings.HasSuffix(f[3], "Mi")
				}
				if !found {
					return fmt.Errorf("no %s: %s%s", node, r.Stdout, r.Stderr)
				}
			}
			return nil
		})
	}
}

// testDrain: a4s node drain through any server evicts the pods of all partitions, as the
// budgets of each allow it.
func (p *partitionPods) testDrain(t *testing.T) {
	node, ctx := p.worker.host.Name, t.Context()
	one, all := int32(1), intstr.FromInt32(1)
	guarded := map[*cluster]*corev1.Pod{}
	for name, c := range p.of {
		pod := template("guarded", name, node)
		pod.Spec.Tolerations = nil // a cordoned node takes those that tolerate everything
		selector := &metav1.LabelSelector{MatchLabels: pod.Labels}
		if _, err := c.client.AppsV1().Deployments("kube-system").Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "guarded"}, Spec: appsv1.DeploymentSpec{Replicas: &one,
				Selector: selector, Template: pod}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.client.PolicyV1().PodDisruptionBudgets("kube-system").Create(ctx,
			&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "guarded"},
				Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &all, Selector: selector}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range p.of {
		guarded[c] = c.oneOf(t, "guarded")
		hosts.Until(t, soon, c.host.Name+" knows that the budget is used up", func(ctx context.Context) error {
			b, err := c.client.PolicyV1().PodDisruptionBudgets("kube-system").Get(ctx, "guarded", metav1.GetOptions{})
			if err == nil && (b.Status.ExpectedPods != 1 || b.Status.CurrentHealthy != 1) {
				err = fmt.Errorf("%+v", b.Status)
			}
			return err
		})
	}
	drain := func(by *cluster, args ...string) hosts.Result {
		return by.a4s(t, append([]string{"node", "drain", node, "--ignore-daemonsets", "--force"}, args...)...)
	}
	evicted := func(c *cluster) bool {
		now, err := c.client.CoreV1().Pods("kube-system").Get(ctx, guarded[c].Name, metav1.GetOptions{})
		return err != nil || now.DeletionTimestamp != nil
	}
	// Neither budget allows it.
	r := drain(p.tp2, "--pod-selector", "app=guarded", "--timeout", "3s")
	if r.ExitCode == 0 || !strings.Contains(r.Stderr, "disruption budget") || evicted(p.home) || evicted(p.tp2) {
		t.Errorf("pods are evicted although a budget forbids it: %s%s", r.Stdout, r.Stderr)
	}
	for _, c := range p.of {
		hosts.Until(t, soon, c.host.Name+" knows that the node is cordoned", func(ctx context.Context) error {
			n, err := c.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			if err == nil && !n.Spec.Unschedulable {
				err = fmt.Errorf("%+v", n.Spec)
			}
			return err
		})
	}
	// That of home does, that of tp2 does not.
	budget := func(c *cluster) {
		t.Helper()
		if _, err := c.client.PolicyV1().PodDisruptionBudgets("kube-system").Patch(ctx, "guarded",
			types.MergePatchType, []byte(`{"spec":{"minAvailable":0}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		hosts.Until(t, soon, c.host.Name+" knows that the budget allows it", func(ctx context.Context) error {
			b, err := c.client.PolicyV1().PodDisruptionBudgets("kube-system").Get(ctx, "guarded", metav1.GetOptions{})
			if err == nil && b.Status.DisruptionsAllowed != 1 {
				err = fmt.Errorf("%+v", b.Status)
			}
			return err
		})
	}
	budget(p.home)
	r = drain(p.tp2, "--pod-selector", "app=guarded", "--timeout", "3s")
	if r.ExitCode == 0 || !strings.Contains(r.Stderr, "tp2") || !evicted(p.home) || evicted(p.tp2) {
		t.Errorf("tp2's budget is not the one that counts for its pod: %s%s", r.Stdout, r.Stderr)
	}
	budget(p.tp2)
	if out := p.tp2.must(t, "node", "drain", node, "--ignore-daemonsets", "--force", "--timeout", "50s"); !strings.
		Contains(out, "node/"+node+" drained") {
		t.Errorf("it says %s", out)
	}
	for name, c := range p.of {
		list, err := c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			pod := &list.Items[i]
			owner := metav1.GetControllerOf(pod)
			_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
			if !static && (owner == nil || owner.Kind != "DaemonSet") {
				t.Errorf("%s still has %s/%s there", name, pod.Namespace, pod.Name)
			}
		}
	}
	p.tp2.mustKubectl(t, "uncordon "+node)
	for _, c := range p.of {
		if pod := c.oneOf(t, "guarded"); pod.Spec.NodeName != node {
			t.Errorf("%s's pod is on %s", c.host.Name, pod.Spec.NodeName)
		}
	}
}
