package resourcepartitions_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/server/partition/nodecopies"
	"github.com/a4s-io/a4s/server/partition/notready"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// TestPodsOfNodesThatAreNotReady: pods on copies that are not ready are not ready, unless
// most nodes of the resource partition are unknown and the kubelet answers. Nodes of the
// server itself are left to upstream.
func TestPodsOfNodesThatAreNotReady(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	if err := planes.Prepare(); err != nil {
		t.Fatal(err)
	}
	tp := startPlane(t, "tp1", 6443)
	importer := tp.client(t, tp.as(t, importerUser, tp.direct))
	add := func(name, partition string) {
		t.Helper()
		n, client := node(name, "4"), tp.admin
		if partition != "" {
			n.Labels[nodecopies.Label], client = partition, importer
		}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		p := pod("on-"+name, 1)
		p.Spec.NodeName = name
		if _, err := tp.admin.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := tp.admin.CoreV1().Pods("default").Patch(t.Context(), p.Name, types.StrategicMergePatchType,
			[]byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`),
			metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	ready := func(ctx context.Context, name string) (corev1.ConditionStatus, error) {
		p, err := tp.admin.CoreV1().Pods("default").Get(ctx, "on-"+name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady {
				return c.Status, nil
			}
		}
		return "", nil
	}
	becomes := func(node string, want corev1.ConditionStatus) {
		t.Helper()
		planes.Eventually(t, fmt.Sprintf("the pod on %s to be ready: %s", node, want),
			func(ctx context.Context) (bool, error) {
				is, err := ready(ctx, node)
				return is == want, err
			})
	}
	is := func(node string, want corev1.ConditionStatus) {
		t.Helper()
		if got, err := ready(t.Context(), node); err != nil || got != want {
			t.Errorf("the pod on %s is ready: %s (%v), want %s", node, got, err, want)
		}
	}
	set := func(node string, status corev1.ConditionStatus) {
		t.Helper()
		if _, err := importer.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType,
			[]byte(fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, status)),
			metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		add(fmt.Sprintf("a%d", i), "rp1")
		add(fmt.Sprintf("b%d", i), "rp2")
	}
	add("own", "")
	set("a3", corev1.ConditionFalse) // before the marker comes
	run(t, notready.Component(notready.Options{Client: tp.client(t, tp.as(t, "system:admin", tp.direct)),
		Silent: func(string) time.Time { return time.Time{} },
		Reached: func(_ context.Context, n *corev1.Node) error {
			if n.Name == "b1" {
				return nil
			}
			return errors.New("no answer")
		},
		Log: logrus.WithField("component", notready.Name)}))
	becomes("a3", corev1.ConditionFalse)
	set("a3", corev1.ConditionTrue) // the kubelet says it of the pod
	set("own", corev1.ConditionUnknown)
	set("a0", corev1.ConditionUnknown)
	becomes("a0", corev1.ConditionFalse)
	is("a1", corev1.ConditionTrue)
	is("own", corev1.ConditionTrue)
	planes.Eventually(t, "an event about the pod", func(ctx context.Context) (bool, error) {
		list, err := tp.admin.CoreV1().Events("default").List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.name=on-a0,reason=NodeNotReady"})
		return err == nil && len(list.Items) > 0, err
	})

	// Three of four at once: it may be rp2, or the way to it. The one that is alive is told
	// from those that are not.
	for i := range 3 {
		set(fmt.Sprintf("b%d", 3-i), corev1.ConditionUnknown)
	}
	becomes("b2", corev1.ConditionFalse)
	becomes("b3", corev1.ConditionFalse)
	is("b1", corev1.ConditionTrue)
	is("b0", corev1.ConditionTrue)
}
