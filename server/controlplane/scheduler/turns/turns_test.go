package turns

import (
	"container/heap"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// queue is a heap, as that of the scheduler is.
type queue struct {
	plugin *Plugin
	pods   []*framework.QueuedPodInfo
	made   int
}

func (q *queue) Len() int           { return len(q.pods) }
func (q *queue) Less(i, j int) bool { return q.plugin.Less(q.pods[i], q.pods[j]) }
func (q *queue) Swap(i, j int)      { q.pods[i], q.pods[j] = q.pods[j], q.pods[i] }
func (q *queue) Push(x any)         { q.pods = append(q.pods, x.(*framework.QueuedPodInfo)) }
func (q *queue) Pop() any {
	last := q.pods[len(q.pods)-1]
	q.pods = q.pods[:len(q.pods)-1]
	return last
}

// add has pods of a tenant wait.
func (q *queue) add(t *testing.T, tenant string, priority int32, n int) (added []*framework.QueuedPodInfo) {
	t.Helper()
	for range n {
		q.made++
		name := fmt.Sprintf("%s-%d", tenant, q.made)
		info, err := framework.NewPodInfo(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default." + tenant, Name: name, UID: types.UID(name)},
			Spec:       corev1.PodSpec{Priority: &priority},
		})
		if err != nil {
			t.Fatal(err)
		}
		pod := &framework.QueuedPodInfo{PodInfo: info,
			QueueingParams: framework.QueueingParams{Timestamp: time.Unix(int64(q.made), 0)}}
		heap.Push(q, pod)
		added = append(added, pod)
	}
	return added
}

// next schedules pods and returns whose they were.
func (q *queue) next(t *testing.T, n int) string {
	t.Helper()
	var tenants strings.Builder
	for range n {
		pod := heap.Pop(q).(*framework.QueuedPodInfo).Pod //nolint:errcheck // nothing else is in it
		if _, status := q.plugin.PreFilter(t.Context(), nil, pod, nil); !status.IsSkip() {
			t.Fatal(status)
		}
		tenants.WriteString(pod.Name[:1])
	}
	return tenants.String()
}

// TestTenantsTakeTurns: who comes to a long queue of another tenant is next, tenants that
// wait have one pod each in a round, and a tenant alone has its pods in order.
func TestTenantsTakeTurns(t *testing.T) {
	q := &queue{plugin: newPlugin()}
	q.add(t, "a", 0, 1000)
	if got := q.next(t, 10); got != "aaaaaaaaaa" {
		t.Errorf("alone: %s", got)
	}
	q.add(t, "b", 0, 3)
	q.add(t, "c", 0, 1)
	if got := q.next(t, 8); strings.Trim(got, "a") == "" || strings.Index(got, "b") > 1 ||
		strings.Index(got, "c") > 3 || strings.Count(got, "b") != 3 {
		t.Errorf("beside others: %s", got)
	}
	q.add(t, "b", 10, 2)
	if got := q.next(t, 3); got != "bba" {
		t.Errorf("with priority: %s", got)
	}
	order := -1
	for q.Len() > 0 {
		pod := heap.Pop(q).(*framework.QueuedPodInfo) //nolint:errcheck // nothing else is in it
		if now := int(pod.Timestamp.Unix()); now <= order {
			t.Fatalf("%s comes after %d", pod.Pod.Name, order)
		} else {
			order = now
		}
	}
}

// TestTurnsOfDeletedPodsAreGivenBack: a tenant whose pods were deleted while they waited is
// not behind another for them.
func TestTurnsOfDeletedPodsAreGivenBack(t *testing.T) {
	q := &queue{plugin: newPlugin()}
	q.add(t, "b", 0, 200)
	for _, pod := range q.add(t, "a", 0, 100) {
		q.plugin.deleted(pod.Pod)
	}
	q.pods = q.pods[:0]
	q.add(t, "b", 0, 50)
	q.add(t, "a", 0, 2)
	if got := q.next(t, 4); strings.Count(got, "a") != 2 {
		t.Errorf("%s", got)
	}
}

// TestTurnsAreForgotten: nothing is kept of pods and tenants that are done.
func TestTurnsAreForgotten(t *testing.T) {
	p := newPlugin()
	q := &queue{plugin: p}
	for i := range 20 * fewTenants {
		q.add(t, fmt.Sprintf("t%d", i), 0, 2)
		q.next(t, 2)
	}
	if len(p.tags) > 0 || len(p.last) > 2*fewTenants {
		t.Errorf("%d pods and %d tenants are kept", len(p.tags), len(p.last))
	}
}

// TestOrderStands: whatever comes, waits again and goes, the heap's first is never after
// another of its pods.
func TestOrderStands(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	q := &queue{plugin: newPlugin()}
	for range 5000 {
		if q.Len() == 0 || r.IntN(3) > 0 {
			q.add(t, string(rune('a'+r.IntN(5))), int32(r.IntN(2)), 1+r.IntN(3))
			continue
		}
		first := q.pods[0]
		for _, other := range q.pods[1:] {
			if q.plugin.Less(other, first) {
				t.Fatalf("%s is before the first, %s", other.Pod.Name, first.Pod.Name)
			}
		}
		if r.IntN(4) == 0 {
			i := r.IntN(q.Len())
			q.plugin.deleted(heap.Remove(q, i).(*framework.QueuedPodInfo).Pod) //nolint:errcheck // as above
			continue
		}
		q.next(t, 1)
	}
}

// before138 and from138 are the two forms in which entities have their pods.
type before138 struct {
	fwk.QueuedEntityInfo
	pods []*framework.QueuedPodInfo
}

func (e before138) ForEachPodInfo(each func(*framework.QueuedPodInfo) bool) {
	for _, pod := range e.pods {
		if !each(pod) {
			return
		}
	}
}

type from138 struct {
	fwk.QueuedEntityInfo
	pods []*framework.QueuedPodInfo
}

func (e from138) ForEachPodInfo() iter.Seq[*framework.QueuedPodInfo] {
	return func(yield func(*framework.QueuedPodInfo) bool) {
		for _, pod := range e.pods {
			if !yield(pod) {
				return
			}
		}
	}
}

// TestEveryEntityHasItsPod: the one that upstream queues, and a group in each form. An entity
// whose pods are not found has no turn, and tenants then do not take turns.
func TestEveryEntityHasItsPod(t *testing.T) {
	q := &queue{plugin: newPlugin()}
	pods := q.add(t, "a", 0, 2)
	for name, e := range map[string]fwk.QueuedEntityInfo{
		"upstream's": pods[0], "before 1.38": before138{pods: pods}, "from 1.38": from138{pods: pods},
	} {
		if got := firstPod(e); got != pods[0].Pod {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := firstPod(from138{}); got != nil {
		t.Errorf("of none: %v", got)
	}
}
