package endpoints

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWallV12Holds(t *testing.T) {
	pod := func(namespace string, change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
			Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		for _, c := range change {
			c(p)
		}
		return p
	}
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	onNode := func(p *corev1.Pod) { p.Spec.HostNetwork = true }
	for _, c := range []struct {
		name             string
		pods             []*corev1.Pod
		living, draining bool
	}{
		{"nobody", nil, false, false},
		{"own", []*corev1.Pod{pod("default.a")}, true, true},
		{"own in another namespace", []*corev1.Pod{pod("other.a")}, true, true},
		{"own, being deleted", []*corev1.Pod{pod("default.a", deleted)}, false, true},
		{"own, ended", []*corev1.Pod{pod("default.a", ended)}, false, false},
		{"own, with the node's address", []*corev1.Pod{pod("default.a", onNode)}, false, false},
		{"another tenant's", []*corev1.Pod{pod("default.b")}, false, false},
		{"the system's", []*corev1.Pod{pod("default")}, false, false},
		{"of both", []*corev1.Pod{pod("default.a"), pod("default.b")}, false, false},
		{"of both, the other one being deleted",
			[]*corev1.Pod{pod("default.a"), pod("default.b", deleted)}, false, false},
		{"own after another's that ended", []*corev1.Pod{pod("default.b", ended), pod("default.a")}, true, true},
		{"own before and now", []*corev1.Pod{pod("default.a", ended), pod("default.a")}, true, true},
	} {
		if got := Holds("a", c.pods, Living); got != c.living {
			t.Errorf("%s: %v", c.name, got)
		}
		if got := Holds("a", c.pods, Running); got != c.draining {
			t.Errorf("%s, where it drains: %v", c.name, got)
		}
	}
}
