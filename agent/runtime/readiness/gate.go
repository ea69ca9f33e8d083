package readiness

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/internal/workload"
)

// goodFaith is for how long the cluster has to know that a runtime is not ready
// before pods are refused for it: what was placed before it knew is on its way.
const goodFaith = time.Second

// Gate decides which pods that were placed on this node may start here, by the
// rules that the scheduler has.
type Gate struct {
	// Runtimes are those of the node.
	Runtimes Runtimes
	// Told is what the cluster knows of them.
	Told *Told
	// Grace is for how long the primary runtime may be away without any
	// consequence.
	Grace time.Duration
}

// NotReadyReason says why a pod of type t cannot start, as workload.NotReadyReason does.
func (g Gate) NotReadyReason(t workload.Type, hostNetwork bool) string {
	states := g.Runtimes.States()
	primary := primaryOf(states)
	conditions := Conditions(states)
	now := time.Now()
	for _, of := range workload.Types() {
		i := slices.IndexFunc(conditions, func(c corev1.NodeCondition) bool { return c.Type == of.Condition() })
		forgiven := !g.Told.unready(of, now.Add(-goodFaith))
		if i >= 0 && of == primary {
			forgiven = forgiven || now.Sub(conditions[i].LastTransitionTime.Time) < g.Grace
		}
		switch {
		case !forgiven:
		case i >= 0:
			conditions[i].Status = corev1.ConditionTrue
		default:
			conditions = append(conditions, corev1.NodeCondition{Type: of.Condition(), Status: corev1.ConditionTrue})
		}
	}
	return workload.NotReadyReason(t, hostNetwork, primary, conditions)
}

// Told is since when the cluster knows that runtimes are not ready. Its zero
// value is that of a cluster that was told nothing.
type Told struct {
	mu    sync.Mutex
	since map[workload.Type]time.Time
}

// note takes in that the Node has these conditions.
func (t *Told) note(conditions []corev1.NodeCondition, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since == nil {
		t.since = map[workload.Type]time.Time{}
	}
	for _, of := range workload.Types() {
		ready := slices.ContainsFunc(conditions, func(c corev1.NodeCondition) bool {
			return c.Type == of.Condition() && c.Status == corev1.ConditionTrue
		})
		if _, known := t.since[of]; ready {
			delete(t.since, of)
		} else if !known {
			t.since[of] = now
		}
	}
}

// unready reports whether the cluster has known at a time, and ever since, that
// the runtime of the type is not ready.
func (t *Told) unready(of workload.Type, at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	since, known := t.since[of]
	return known && !since.After(at)
}
