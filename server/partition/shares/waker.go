package shares

import (
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/a4s-io/a4s/server/partition/allocations"
)

// wakePeriod is how often pods that wait are tried again at most because of what others have less.
// The queue looks at all of them each time.
const wakePeriod = 200 * time.Millisecond

// waker has pods tried again that may fit since others have less of a node. What is freed within
// wakePeriod is told as one pod of one of the nodes: which node it was matters to no plugin, but to
// resizes under upstream's alpha gate InPlacePodVerticalScalingSchedulerPreemption, which then wait
// for the queue's own look at all pods.
type waker struct {
	queue queue.SchedulingQueue

	mu   sync.Mutex
	last time.Time
	// planned says that pods will be woken; node is one, and room what others had of all nodes where
	// they have less since pods were woken.
	planned bool
	node    string
	room    allocations.Share
}

// freed has pods woken: at once, or with what else is freed until wakePeriod after the last time.
// Others have less than share of the node, and the scheduler's cache knows it.
func (w *waker) freed(node string, share allocations.Share) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.node = node
	w.room.Add(share)
	if w.planned {
		return
	}
	w.planned = true
	time.AfterFunc(time.Until(w.last.Add(wakePeriod)), w.wake)
}

// wake has the queue look at all pods that wait: plugins compare them with a pod that had the room.
func (w *waker) wake() {
	w.mu.Lock()
	w.room.Normalize()
	gone := standIn(w.node, w.room)
	w.planned, w.room, w.last = false, allocations.Share{}, time.Now()
	w.mu.Unlock()
	w.queue.MoveAllToActiveOrBackoffQueue(klog.Background(), framework.EventAssignedPodDelete, gone, nil, nil)
}
