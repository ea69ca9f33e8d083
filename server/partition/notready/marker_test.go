package notready

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/a4s-io/a4s/server/partition/nodecopies"
)

func newMarker() *marker {
	never := func(string) time.Time { return time.Time{} }
	return &marker{o: Options{Silent: never}, nodes: map[string]map[string]state{}, of: map[string]string{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())}
}

func copyOf(name, partition string, ready corev1.ConditionStatus) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{nodecopies.Label: partition}}}
	if ready != "" {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	}
	return n
}

// TestHeldBack: the pods of a node are due unless more than 55 % of the nodes of its
// partition are unknown. Other partitions do not count.
func TestHeldBack(t *testing.T) {
	for name, tc := range map[string]struct {
		ready, not, unknown int
		due                 bool
	}{
		"one of many":       {9, 0, 1, true},
		"exactly 55 %":      {9, 0, 11, true},
		"more than 55 %":    {8, 0, 11, false},
		"all":               {0, 0, 5, false},
		"the only one":      {0, 0, 1, false},
		"not ready is told": {0, 19, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMarker()
			m.changed(copyOf("elsewhere", "rp2", corev1.ConditionUnknown))
			i := 0
			for status, n := range map[corev1.ConditionStatus]int{corev1.ConditionTrue: tc.ready,
				corev1.ConditionFalse: tc.not, corev1.ConditionUnknown: tc.unknown} {
				for range n {
					i++
					m.changed(copyOf(fmt.Sprintf("n%d-%s", i, status), "rp1", status))
				}
			}
			for name, s := range m.nodes["rp1"] {
				if due, later := m.due(name); due != (tc.due && !s.ready) || later == s.ready {
					t.Errorf("%s: due %t, later %t", name, due, later)
				}
			}
		})
	}
}

// TestReleased: after any sequence of events, every node that is not ready and is not held
// back was looked at since it became so.
func TestReleased(t *testing.T) {
	statuses := []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown, ""}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		m := newMarker()
		marked := map[string]bool{} // since they are not ready
		for range 60 {
			name, partition := fmt.Sprintf("n%d", r.IntN(6)), fmt.Sprintf("rp%d", r.IntN(2))
			status := statuses[r.IntN(len(statuses))]
			if r.IntN(8) == 0 {
				m.deleted(copyOf(name, "", ""))
				delete(marked, name)
			} else {
				if status == corev1.ConditionTrue {
					delete(marked, name)
				}
				m.changed(copyOf(name, partition, status))
			}
			for m.queue.Len() > 0 {
				name, _ := m.queue.Get()
				if due, _ := m.due(name); due {
					marked[name] = true
				}
				m.queue.Done(name)
			}
			for name := range m.of {
				if due, _ := m.due(name); due && !marked[name] {
					t.Fatalf("seed %d: %s is due and was not looked at: %+v", seed, name, m.nodes)
				}
			}
		}
	}
}

// TestPartitionThatWasSilent: what it does not hear of its nodes counts later, what they say at once.
func TestPartitionThatWasSilent(t *testing.T) {
	for status, silent := range map[corev1.ConditionStatus]bool{
		corev1.ConditionUnknown: true, corev1.ConditionFalse: false} {
		m := newMarker()
		last := time.Now()
		m.o.Silent = func(string) time.Time { return last }
		m.changed(copyOf("other", "rp1", corev1.ConditionTrue))
		m.changed(copyOf("n", "rp1", status))
		if due, later := m.due("n"); due == silent || !later {
			t.Errorf("%s: due %t, later %t", status, due, later)
		}
		last = time.Now().Add(-heardAgain)
		if due, _ := m.due("n"); !due {
			t.Errorf("%s: it is not due when the partition has answered for long", status)
		}
	}
}
