package readiness

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/internal/workload"
)

// unreported is for how long the cluster may not know yet that a runtime got
// lost. Pods that were placed in good faith are not refused.
const unreported = time.Second

// Gate decides which pods that were placed on this node may start here, by the
// rules that the scheduler has.
type Gate struct {
	// Runtimes are those of the node.
	Runtimes Runtimes
	// Grace is for how long the primary runtime may be away without any
	// consequence.
	Grace time.Duration
}

// Obstacle says why a pod of type t cannot start, as workload.Obstacle does.
func (g Gate) Obstacle(t workload.Type, hostNetwork bool) string {
	states := g.Runtimes.States()
	primary := primaryOf(states)
	conditions := Conditions(states)
	for i := range conditions {
		grace := unreported
		if primary != "" && conditions[i].Type == primary.Condition() {
			grace = max(grace, g.Grace)
		}
		if time.Since(conditions[i].LastTransitionTime.Time) < grace {
			conditions[i].Status = corev1.ConditionTrue
		}
	}
	return workload.Obstacle(t, hostNetwork, primary, conditions)
}
