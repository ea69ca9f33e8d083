package topology

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// nodeCalled is a node of one zone.
func nodeCalled(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelTopologyZone: "z"}}}
}

// podApartFrom is a pod that shares no node with its like in some namespaces, its own if there are none.
func podApartFrom(namespace, name string, namespaces ...string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name),
		Labels: map[string]string{"app": "x"}},
		Spec: corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				Namespaces: namespaces, TopologyKey: corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}}}}}}}
}

// filters is what a plugin says of a pod and of each node.
func filters(t *testing.T, c *cluster, p plugin, state fwk.CycleState, pod *corev1.Pod) map[string]string {
	t.Helper()
	all, err := c.snapshot.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	_, status := p.PreFilter(t.Context(), state, pod, all)
	out["prefilter"] = text(status)
	if status.IsSuccess() {
		for _, n := range all {
			out[n.Node().Name] = text(p.Filter(t.Context(), state, pod, n))
		}
	}
	return out
}

// TestPodGroupsAreAsUpstreams: in the cycle of a group its pods are assumed in the snapshot, where a node keeps its
// generation.
func TestPodGroupsAreAsUpstreams(t *testing.T) {
	metrics.Register()
	c := newCluster(t, 0, true)
	for _, n := range []string{"n1", "n2"} {
		c.cache.AddNode(klog.Background(), nodeCalled(n))
	}
	if err := c.cache.UpdateSnapshot(klog.Background(), c.snapshot); err != nil {
		t.Fatal(err)
	}
	group := framework.NewCycleState()
	state := func() fwk.CycleState {
		s := framework.NewCycleState()
		s.SetPodGroupSchedulingCycle(group)
		return s
	}
	ours, theirs := c.pairs[AffinityName][1], c.pairs[AffinityName][0]
	first, second := podApartFrom("default.a", "p1"), podApartFrom("default.a", "p2")
	filters(t, c, ours, state(), first)
	assumed := first.DeepCopy()
	assumed.Spec.NodeName = "n1"
	info, err := framework.NewPodInfo(assumed)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.snapshot.AssumePod(info); err != nil {
		t.Fatal(err)
	}
	want, got := filters(t, c, theirs, state(), second), filters(t, c, ours, state(), second)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// TestTermsThatReachOtherSpaces: a pod that the system wrote into a tenant's namespace can mean pods of others.
func TestTermsThatReachOtherSpaces(t *testing.T) {
	metrics.Register()
	c := newCluster(t, 0, true)
	for _, n := range []string{"n1", "n2"} {
		c.cache.AddNode(klog.Background(), nodeCalled(n))
	}
	existing := podApartFrom("default.a", "p1", "default.b", "default")
	existing.Spec.NodeName = "n1"
	if err := c.cache.AddPod(klog.Background(), existing); err != nil {
		t.Fatal(err)
	}
	if err := c.cache.UpdateSnapshot(klog.Background(), c.snapshot); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{"default.b", "default"} {
		pod := podApartFrom(ns, "new")
		pod.Spec.Affinity = nil
		want := filters(t, c, c.pairs[AffinityName][0], framework.NewCycleState(), pod)
		got := filters(t, c, c.pairs[AffinityName][1], framework.NewCycleState(), pod)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v\nwant %v", ns, got, want)
		}
	}
}
