package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// checkConditions refuses changes of the conditions of a pod that are not the
// tenants'.
func checkConditions(now, was *corev1.Pod) error {
	var gates []string
	for _, gate := range was.Spec.ReadinessGates { // a status changes no spec
		gates = append(gates, string(gate.ConditionType))
	}
	systems := func(pod *corev1.Pod) map[corev1.PodConditionType][]corev1.PodCondition {
		out := map[corev1.PodConditionType][]corev1.PodCondition{}
		for _, c := range pod.Status.Conditions {
			if !kinds.TenantsPodCondition(string(c.Type), gates) {
				out[c.Type] = append(out[c.Type], c)
			}
		}
		return out
	}
	n, w := systems(now), systems(was)
	for of := range w {
		if _, ok := n[of]; !ok {
			n[of] = nil
		}
	}
	for of := range n {
		if !equality.Semantic.DeepEqual(n[of], w[of]) {
			return fmt.Errorf("the condition %s in status.conditions is written by the system only; change Ready, "+
				"ContainersReady, Initialized, one whose type has a domain, as example.com/checked, or one that "+
				"spec.readinessGates names", of)
		}
	}
	return nil
}
