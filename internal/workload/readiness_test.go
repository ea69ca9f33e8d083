package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestObstacle(t *testing.T) {
	condition := func(t Type, s corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: t.Condition(), Status: s, Reason: reason}
	}
	var (
		containers = condition(Container, corev1.ConditionTrue, "Ready")
		vms        = condition(VM, corev1.ConditionTrue, "Ready")
		noNetwork  = condition(Container, corev1.ConditionFalse, NetworkNotReady)
		silent     = condition(VM, corev1.ConditionUnknown, "Silent")
	)
	for _, tc := range []struct {
		name       string
		t          Type
		host       bool
		primary    Type
		conditions []corev1.NodeCondition
		want       string
	}{
		{"container", Container, false, Container, []corev1.NodeCondition{containers}, ""},
		{"no conditions", Container, false, Container, nil, "no ready container runtime (none is registered)"},
		{"another type only", VM, false, Container, []corev1.NodeCondition{containers},
			"no ready vm runtime (none is registered)"},
		{"vm", VM, false, Container, []corev1.NodeCondition{containers, vms}, ""},
		{"vm runtime silent", VM, false, Container, []corev1.NodeCondition{containers, silent},
			"no ready vm runtime (VmRuntimeReady is Unknown: Silent)"},
		{"containers do not need it", Container, false, Container, []corev1.NodeCondition{containers, silent}, ""},
		{"without a reason", Container, false, Container, []corev1.NodeCondition{condition(Container,
			corev1.ConditionFalse, "")}, "no ready container runtime (ContainerRuntimeReady is False)"},
		{"vm without the primary", VM, false, Container, []corev1.NodeCondition{vms},
			"no ready primary runtime for a pod of type vm (none is registered)"},
		{"vm without the primary's network", VM, true, Container, []corev1.NodeCondition{vms, noNetwork},
			"no ready primary runtime for a pod of type vm (ContainerRuntimeReady is False: NetworkPluginNotReady)"},
		{"primary of vms", VM, false, VM, []corev1.NodeCondition{vms}, ""},
		{"container beside a primary of vms", Container, false, VM, []corev1.NodeCondition{containers, silent},
			"no ready primary runtime for a pod of type container (VmRuntimeReady is Unknown: Silent)"},
		{"no network", Container, false, Container, []corev1.NodeCondition{noNetwork},
			"no ready container runtime (ContainerRuntimeReady is False: NetworkPluginNotReady)"},
		{"no network but the host's", Container, true, Container, []corev1.NodeCondition{noNetwork}, ""},
		{"the host's network is no runtime", Container, true, Container, []corev1.NodeCondition{condition(Container,
			corev1.ConditionFalse, "Down")}, "no ready container runtime (ContainerRuntimeReady is False: Down)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := NotReadyReason(tc.t, tc.host, tc.primary, tc.conditions); got != tc.want {
				t.Errorf("NotReadyReason = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestPrimaryOf(t *testing.T) {
	for value, want := range map[string]Type{"": Container, "container": Container, "vm": VM, "nonsense": Container} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{PrimaryAnnotation: value}}}
		if got := PrimaryOf(n); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}
