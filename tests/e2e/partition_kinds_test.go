package e2e

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/hosts"
)

// template is that of a workload whose pods say of which partition they are, on a node or,
// without one, wherever it wants them.
func template(name, partition, node string) corev1.PodTemplateSpec {
	pod := partPod(name, partition, "")
	if node != "" {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec}
}

func daemonSet(name, partition, node string) *appsv1.DaemonSet {
	pod := template(name, partition, node)
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: pod}}
}

// partition is a client of a partition's API through any server.
func (c *cluster) partition(t *testing.T, name string) *rest.Config {
	t.Helper()
	config := rest.CopyConfig(c.config)
	config.Host += "/partitions/" + name
	return config
}

// testNoDaemonSets: nobody makes a DaemonSet in the space of a tenant, whatever way they come.
func (p *partitionPods) testNoDaemonSets(t *testing.T) {
	for of := range p.of {
		tenant := "of-" + of
		for at, by := range p.of {
			for who, way := range map[string]struct {
				config *rest.Config
				ns     string
			}{
				"the tenant":                    {by.makeTenant(t, tenant).config, "default"},
				"an administrator":              {by.config, "default." + tenant},
				"an administrator in the space": {tenantapi.InSpace(by.config, tenant), "default"},
				"by the partition's path":       {by.partition(t, of), "default." + tenant},
				"by that and the space":         {tenantapi.InSpace(by.partition(t, of), tenant), "default"},
			} {
				noDaemonSet(t, fmt.Sprintf("%s, tenant %s, through %s's server", who, tenant, at), way.config, way.ns)
			}
		}
	}
}

// noDaemonSet tries to make one.
func noDaemonSet(t *testing.T, who string, config *rest.Config, ns string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	sets := client.AppsV1().DaemonSets(ns)
	_, made := sets.Create(t.Context(), daemonSet("own", "main", ""), metav1.CreateOptions{})
	_, applied := sets.Patch(t.Context(), "own", types.ApplyPatchType,
		[]byte(`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"own"}}`),
		metav1.PatchOptions{FieldManager: "test"})
	for verb, err := range map[string]error{"made": made, "applied": applied} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "a DaemonSet runs on every node") {
			t.Errorf("%s: a DaemonSet is %s: %v", who, verb, err)
		}
	}
}

// ofSet are the pods of a DaemonSet in kube-system, by their nodes.
func (c *cluster) ofSet(ctx context.Context, name string) (map[string]corev1.Pod, error) {
	list, err := c.client.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return nil, err
	}
	pods := map[string]corev1.Pod{}
	for _, pod := range list.Items {
		if other, ok := pods[pod.Spec.NodeName]; ok {
			return nil, fmt.Errorf("node %s has %s and %s", pod.Spec.NodeName, other.Name, pod.Name)
		}
		pods[pod.Spec.NodeName] = pod
	}
	return pods, nil
}

// waitSet waits until a DaemonSet has a pod that is ready on each of the nodes and on no other.
func (c *cluster) waitSet(t *testing.T, name string, nodes ...string) map[string]corev1.Pod {
	t.Helper()
	var pods map[string]corev1.Pod
	hosts.Until(t, podTimeout, fmt.Sprintf("%s: DaemonSet %s is on %v", c.host.Name, name, nodes),
		func(ctx context.Context) error {
			set, err := c.client.AppsV1().DaemonSets("kube-system").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if pods, err = c.ofSet(ctx, name); err != nil {
				return err
			}
			got := slices.Sorted(maps.Keys(pods))
			if slices.Sort(nodes); !slices.Equal(got, nodes) || int(set.Status.NumberReady) != len(nodes) ||
				int(set.Status.DesiredNumberScheduled) != len(nodes) {
				return fmt.Errorf("it is on %v, %+v", got, set.Status)
			}
			return nil
		})
	return pods
}

// testDaemonSets: those of each partition's system space run on the nodes of all.
func (p *partitionPods) testDaemonSets(t *testing.T) {
	ctx := t.Context()
	for name, c := range p.of {
		for _, set := range []*appsv1.DaemonSet{daemonSet("everywhere", name, ""),
			daemonSet("there", name, p.nodes()[1]), daemonSet("here", name, p.nodes()[0])} {
			if _, err := c.client.AppsV1().DaemonSets("kube-system").
				Create(ctx, set, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	uids := map[types.UID]bool{}
	var ofHome map[string]corev1.Pod
	for name, c := range p.of {
		c.waitSet(t, "here", p.nodes()[0])
		c.waitSet(t, "there", p.nodes()[1])
		pods := c.waitSet(t, "everywhere", p.nodes()...)
		for node, pod := range pods {
			if out := c.said(t, "kube-system", pod.Name); out != "I am of "+name+"\n" || uids[pod.UID] {
				t.Errorf("%s's pod on %s has UID %s and says %q", name, node, pod.UID, out)
			}
			uids[pod.UID] = true
		}
		if c == p.home {
			ofHome = pods
		}
	}
	// Deleted in one, the other's stay.
	if err := p.tp2.client.AppsV1().DaemonSets("kube-system").
		Delete(ctx, "everywhere", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, podTimeout, "the pods of tp2's DaemonSet are gone", func(ctx context.Context) error {
		pods, err := p.tp2.ofSet(ctx, "everywhere")
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("there are %d", len(pods))
		}
		return err
	})
	for node, now := range p.home.waitSet(t, "everywhere", p.nodes()...) {
		was := ofHome[node]
		p.isSame(t, "home's on "+node, &was, &now)
		if out := p.home.said(t, "kube-system", now.Name); out != "I am of main\n" {
			t.Errorf("home's on %s says %q", node, out)
		}
	}
}

// isSame checks that nothing has happened to a pod.
func (p *partitionPods) isSame(t *testing.T, what string, was, now *corev1.Pod) {
	t.Helper()
	if now.UID != was.UID || now.DeletionTimestamp != nil || !podIsReady(now) ||
		containerID(now) != containerID(was) ||
		now.Status.ContainerStatuses[0].RestartCount != was.Status.ContainerStatuses[0].RestartCount {
		t.Errorf("%s is another one: %s %+v, was %s %+v", what, now.UID, now.Status.ContainerStatuses, was.UID,
			was.Status.ContainerStatuses)
	}
}

// makeKinds makes one of each kind of workload on a node, of the same names in each partition.
func (c *cluster) makeKinds(t *testing.T, partition, node string) {
	t.Helper()
	pod := func(name string) corev1.PodTemplateSpec { return template(name, partition, node) }
	of := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	}
	apps, batch, one := c.client.AppsV1(), c.client.BatchV1(), int32(1)
	var errs []error
	add := func(_ any, err error) { errs = append(errs, err) }
	add(apps.Deployments("kube-system").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "kind-deployment"}, Spec: appsv1.DeploymentSpec{Replicas: &one,
			Selector: of("kind-deployment"), Template: pod("kind-deployment")}}, metav1.CreateOptions{}))
	add(apps.StatefulSets("kube-system").Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "kind-statefulset"}, Spec: appsv1.StatefulSetSpec{Replicas: &one,
			Selector: of("kind-statefulset"), Template: pod("kind-statefulset")}}, metav1.CreateOptions{}))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "kind-job"},
		Spec: batchv1.JobSpec{Template: pod("kind-job")}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	add(batch.Jobs("kube-system").Create(t.Context(), job, metav1.CreateOptions{}))
	ends := job.DeepCopy()
	ends.Name, ends.Spec.Template = "kind-ends", pod("kind-ends")
	ends.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	ends.Spec.Template.Spec.Containers[0].Args = []string{"echo I am of " + partition}
	add(batch.Jobs("kube-system").Create(t.Context(), ends, metav1.CreateOptions{}))
	add(apps.DaemonSets("kube-system").Create(t.Context(), daemonSet("kind-daemonset", partition, node),
		metav1.CreateOptions{}))
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	bare := template("kind-bare", partition, node)
	c.createPod(t, "kube-system", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "kind-bare", Labels: bare.Labels}, Spec: bare.Spec})
	c.createPod(t, "kube-system", partPod("kind-named", partition, node))
}

// oneOf waits until there is one pod of a workload in kube-system, and it is ready.
func (c *cluster) oneOf(t *testing.T, workload string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	hosts.Until(t, podTimeout, c.host.Name+": the pod of "+workload+" is ready", func(ctx context.Context) error {
		list, err := c.client.CoreV1().Pods("kube-system").
			List(ctx, metav1.ListOptions{LabelSelector: "app=" + workload})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].DeletionTimestamp != nil || !podIsReady(&list.Items[0]) {
			return fmt.Errorf("there are %d: %+v", len(list.Items), list.Items)
		}
		pod = &list.Items[0]
		return nil
	})
	return pod
}

// testKinds: what holds for a pod that somebody made holds for those of all workloads.
func (p *partitionPods) testKinds(t *testing.T) {
	node, ctx := p.worker.host.Name, t.Context()
	kinds := []string{"deployment", "statefulset", "job", "daemonset", "bare", "named"}
	for name, c := range p.of {
		c.makeKinds(t, name, node)
	}
	pods := map[*cluster]map[string]*corev1.Pod{p.home: {}, p.tp2: {}}
	uids := map[types.UID]bool{}
	for name, c := range p.of {
		for _, kind := range kinds {
			pod := c.oneOf(t, "kind-"+kind)
			if out := c.said(t, "kube-system", pod.Name); out != "I am of "+name+"\n" || pod.Spec.NodeName != node ||
				uids[pod.UID] {
				t.Errorf("%s's %s on %s has UID %s and says %q", name, kind, pod.Spec.NodeName, pod.UID, out)
			}
			uids[pod.UID], pods[c][kind] = true, pod
		}
		hosts.Until(t, podTimeout, name+"'s job has ended", func(ctx context.Context) error {
			job, err := c.client.BatchV1().Jobs("kube-system").Get(ctx, "kind-ends", metav1.GetOptions{})
			if err == nil && job.Status.Succeeded != 1 {
				err = fmt.Errorf("%+v", job.Status)
			}
			return err
		})
		list, err := c.client.CoreV1().Pods("kube-system").
			List(ctx, metav1.ListOptions{LabelSelector: "app=kind-ends"})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("%s: %d pods of the job that ended: %v", name, len(list.Items), err)
		}
		if out := c.said(t, "kube-system", list.Items[0].Name); out != "I am of "+name+"\n" {
			t.Errorf("%s's job says %q", name, out)
		}
	}
	// One of tp2 is started again, and the others go with what made them.
	set := pods[p.tp2]["statefulset"]
	_, _ = p.tp2.exec(ctx, "kube-system", set.Name, "", "/bin/busybox", "kill", "1") // it ends with its container
	p.tp2.waitPod(t, "kube-system", set.Name, "was started again", func(now *corev1.Pod) bool {
		return podIsReady(now) && now.UID == set.UID && now.Status.ContainerStatuses[0].RestartCount == 1
	})
	for _, kind := range []string{"deployment", "job", "daemonset", "bare", "named"} {
		p.tp2.endKind(t, kind)
	}
	for kind, was := range pods[p.tp2] {
		if kind != "statefulset" {
			hosts.Until(t, podTimeout, "tp2's "+kind+" is gone", func(ctx context.Context) error {
				_, err := p.tp2.client.CoreV1().Pods("kube-system").Get(ctx, was.Name, metav1.GetOptions{})
				return wantNotFound(err)
			})
		}
	}
	for _, kind := range kinds {
		p.isSame(t, "home's "+kind, pods[p.home][kind], p.home.oneOf(t, "kind-"+kind))
	}
	for _, c := range p.of {
		for _, kind := range append(kinds, "ends") {
			c.endKind(t, kind)
		}
	}
}

// endKind deletes what makeKinds made, if it is there.
func (c *cluster) endKind(t *testing.T, kind string) {
	t.Helper()
	background, ctx, name := metav1.DeletePropagationBackground, t.Context(), "kind-"+kind
	o := metav1.DeleteOptions{PropagationPolicy: &background}
	var err error
	switch kind {
	case "deployment":
		err = c.client.AppsV1().Deployments("kube-system").Delete(ctx, name, o)
	case "statefulset":
		err = c.client.AppsV1().StatefulSets("kube-system").Delete(ctx, name, o)
	case "daemonset":
		err = c.client.AppsV1().DaemonSets("kube-system").Delete(ctx, name, o)
	case "job", "ends":
		err = c.client.BatchV1().Jobs("kube-system").Delete(ctx, name, o)
	default:
		err = c.client.CoreV1().Pods("kube-system").Delete(ctx, name, o)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// testLocalPods: pods that a node has by itself are of home, whichever partition the node is of.
func (p *partitionPods) testLocalPods(t *testing.T) {
	manifest := func(name string) string {
		pod := partPod(name, "main", "")
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		pod.Namespace = "kube-system"
		pod.Spec.Containers[0].Env = nil
		return toYAML(t, pod)
	}
	for _, on := range []*node{p.worker, &p.tp2.node} {
		if err := on.host.WriteFile(filepath.Join(dataDir, "agent/pod-manifests/static.yaml"),
			manifest("static")); err != nil {
			t.Fatal(err)
		}
	}
	names := []string{p.tp2.bootstrap(t, manifest("handed-over")).Name}
	for _, node := range p.nodes() {
		names = append(names, "static-"+node)
	}
	for _, name := range names {
		pod := p.home.waitPodReady(t, "kube-system", name)
		if out := p.home.said(t, "kube-system", name); out != "I am of main\n" {
			t.Errorf("%s on %s says %q", name, pod.Spec.NodeName, out)
		}
		if _, err := p.tp2.client.CoreV1().Pods("kube-system").
			Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s is in tp2: %v", name, err)
		}
	}
}
