package hollow

import (
	"context"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// TestRoom: a node takes pods of all servers into one account, fails what does not fit,
// and has the room again when a pod ends.
func TestRoom(t *testing.T) {
	n := &node{
		name: Name(0), failures: &failures{}, room: newRoom(4), pods: netip.MustParsePrefix("10.42.0.0/24"),
	}
	pod := func(name, cpus string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
			Spec: corev1.PodSpec{NodeName: n.name, Containers: []corev1.Container{{Name: "a",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse(cpus),
				}}}}},
			Status: corev1.PodStatus{Phase: corev1.PodPending},
		}
	}
	first, second, third := pod("first", "3"), pod("second", "1500m"), pod("third", "1")
	one, two := fake.NewClientset(first), fake.NewClientset(second, third)
	ofOne, ofTwo := &source{node: n, core: one.CoreV1()}, &source{node: n, core: two.CoreV1()}
	phase := func(c *fake.Clientset, name string) string {
		t.Helper()
		p, err := c.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(p.Status.Phase) + p.Status.Reason
	}
	ofOne.sync(t.Context(), first)
	ofOne.sync(t.Context(), first) // an event that comes again takes no more
	ofTwo.sync(t.Context(), second)
	ofTwo.sync(t.Context(), third)
	if got := phase(one, "first") + " " + phase(two, "second") + " " + phase(two, "third"); got !=
		"Running FailedOutOfcpu Running" {
		t.Errorf("the pods are %s", got)
	}
	now := metav1.Now()
	first.DeletionTimestamp = &now
	ofOne.sync(t.Context(), first)
	fourth := pod("fourth", "3")
	if err := two.Tracker().Add(fourth); err != nil {
		t.Fatal(err)
	}
	ofTwo.sync(t.Context(), fourth)
	if got := phase(two, "fourth"); got != "Running" {
		t.Errorf("the pod that follows is %s", got)
	}
	if n.failures.count != 0 {
		t.Error(n.failures.last)
	}
}
