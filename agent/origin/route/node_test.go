package route

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/tests/partitiontest"
)

// TestVolumesOfTheFirstGet: the kubelet is not told that a volume is not attached before its partition
// could say that it is.
func TestVolumesOfTheFirstGet(t *testing.T) {
	c := newCluster(t, Options{})
	c.rp.Put(t, "nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})
	for _, s := range []*partitiontest.Server{c.home, c.tp2} {
		s.Put(t, "nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Status: corev1.NodeStatus{
			VolumesAttached: []corev1.AttachedVolume{{Name: corev1.UniqueVolumeName("of-" + s.URL)}}}})
	}
	got, err := c.api.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil || len(got.Status.VolumesAttached) != 2 {
		t.Errorf("attached are %v: %v", got.Status.VolumesAttached, err)
	}
}

// TestVolumesAttachedByPartitions are all in the node that the kubelet reads.
func TestVolumesAttachedByPartitions(t *testing.T) {
	c := newCluster(t, Options{})
	node := func(volumes ...corev1.UniqueVolumeName) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: "n", Labels: map[string]string{"a": "b"}}}
		for _, v := range volumes {
			n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: v})
		}
		return n
	}
	attached := func() []string {
		got, err := c.api.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil || got.UID != "n" || got.Labels["a"] != "b" {
			t.Fatal(got, err)
		}
		var names []string
		for _, v := range got.Status.VolumesAttached {
			names = append(names, string(v.Name))
		}
		slices.Sort(names)
		return names
	}
	await := func(want ...string) {
		t.Helper()
		eventually(t, func() bool { return slices.Equal(attached(), want) },
			func() any { return fmt.Sprint(attached(), want) })
	}
	c.rp.Put(t, "nodes", node("old"))
	await("old")
	c.home.Put(t, "nodes", node("v1", "old"))
	c.tp2.Put(t, "nodes", node("v2", "v3"))
	await("old", "v1", "v2", "v3")
	c.tp2.Put(t, "nodes", node("v3"))
	await("old", "v1", "v3")
	list, err := c.api.CoreV1().Nodes().List(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=" + nodeName})
	if err != nil || len(list.Items) != 1 || len(list.Items[0].Status.VolumesAttached) != 1 {
		t.Errorf("the list is that of the resource partition: %v, %v", list, err)
	}
	for _, a := range c.tp2.Asked("GET", "/api/v1/nodes") {
		if a.Query.Get("fieldSelector") != "metadata.name="+nodeName {
			t.Errorf("the partition was asked for other nodes: %v", a)
		}
	}
}

// TestNodeOfATenantPartition: the partition that has the node may be one of the tenant
// partitions, which one may be learned late, and while home has it and is the only one, all passes.
func TestNodeOfATenantPartition(t *testing.T) {
	home, tp2, rp := partitiontest.New(t, "main"), partitiontest.New(t, "tp2"), partitiontest.New(t, "rp")
	for _, s := range []*partitiontest.Server{home, tp2, rp} {
		s.Put(t, "nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: types.UID(s.URL)}})
	}
	main := home.Partition(true)
	main.Node = true
	d := newDirectory(main)
	n := newNode(t, Options{Partitions: d, ResourcePartition: rp.Transport(), Fresh: true})
	api := n.client(t)
	by := func(s *partitiontest.Server) func() bool {
		return func() bool {
			got, err := api.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
			return err == nil && got.UID == types.UID(s.URL)
		}
	}
	what := func() any { return "another partition says what the node is" }
	eventually(t, by(home), what)
	if !n.table.Load().alone {
		t.Error("requests are changed for one partition")
	}
	second := tp2.Partition(false)
	second.Node, main.Node = true, false
	d.set(main, second)
	eventually(t, by(tp2), what)
	second.Node = false
	d.set(main, second)
	eventually(t, by(rp), what)
}

// TestAListThatLacksTheNode is no answer if the node was there: kube-proxy ends the process when it
// is gone.
func TestAListThatLacksTheNode(t *testing.T) {
	c := newCluster(t, Options{})
	list := func() error {
		_, err := c.api.CoreV1().Nodes().List(t.Context(),
			metav1.ListOptions{FieldSelector: "metadata.name=" + nodeName})
		return err
	}
	initial := true
	if _, err := c.api.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{SendInitialEvents: &initial,
		FieldSelector: "metadata.name=" + nodeName}); !apierrors.IsInvalid(err) {
		t.Errorf("a watch tells which nodes there are: %v", err)
	}
	if err := list(); err != nil {
		t.Errorf("before it registers: %v", err)
	}
	node := nodeCalled(nodeName)
	c.rp.Put(t, "nodes", node)
	if _, err := c.api.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	c.rp.Delete(t, "nodes", node)
	if err := list(); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("it is missing: %v", err)
	}
	c.rp.Put(t, "nodes", node)
	if err := list(); err != nil {
		t.Errorf("it is back: %v", err)
	}
	n := ownNode{there: true, missing: time.Now().Add(-missed - time.Second)}
	if !n.lacking() {
		t.Error("a node that is missing for long is not believed to be gone")
	}
}
