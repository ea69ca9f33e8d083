package notready

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
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

// TestKubeletIsAsked: the pods of a node that is not ready are due; when more than 55 % of
// the nodes of its partition are unknown, its kubelet is asked. Other partitions do not count.
func TestKubeletIsAsked(t *testing.T) {
	for name, tc := range map[string]struct {
		ready, not, unknown int
		ask                 bool
	}{
		"one of many":       {9, 0, 1, false},
		"exactly 55 %":      {9, 0, 11, false},
		"more than 55 %":    {8, 0, 11, true},
		"all":               {0, 0, 5, true},
		"the only one":      {0, 0, 1, true},
		"not ready is told": {0, 1, 9, true},
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
			if queued := m.queue.Len() - 1; queued != tc.not+tc.unknown {
				t.Errorf("%d nodes are looked at", queued)
			}
			for name, s := range m.nodes["rp1"] {
				due, later, ask := m.due(name)
				if due == s.ready || later == s.ready || ask != (tc.ask && s.unknown) {
					t.Errorf("%s: due %t, later %t, ask %t", name, due, later, ask)
				}
			}
		})
	}
}

// TestMark: of a node whose kubelet is asked and answers no pod is marked.
func TestMark(t *testing.T) {
	for name, tc := range map[string]struct{ ask, reached, marked bool }{
		"not asked":             {false, true, true},
		"it answers":            {true, true, false},
		"it is silent":          {true, false, true},
		"not asked, and silent": {false, false, true},
	} {
		m := newMarker()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
			Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning,
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
		client := fake.NewClientset(pod, copyOf("n", "rp1", corev1.ConditionUnknown))
		m.o.Client, m.recorder = client, record.NewFakeRecorder(10)
		m.o.Reached = func(_ context.Context, n *corev1.Node) error {
			if n.Name == "n" && tc.reached {
				return nil
			}
			return errors.New("no answer")
		}
		if err := m.mark(t.Context(), "n", tc.ask); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err := client.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || (got.Status.Conditions[0].Status == corev1.ConditionFalse) != tc.marked {
			t.Errorf("%s: %v, %v", name, got.Status.Conditions, err)
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
		if due, later, _ := m.due("n"); due == silent || !later {
			t.Errorf("%s: due %t, later %t", status, due, later)
		}
		last = time.Now().Add(-heardAgain)
		if due, _, _ := m.due("n"); !due {
			t.Errorf("%s: it is not due when the partition has answered for long", status)
		}
	}
}
