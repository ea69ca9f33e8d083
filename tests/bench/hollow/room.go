package hollow

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// room is what a node has left of its processors, in thousandths, as the admission of a
// kubelet counts: by what pods request, from wherever they come.
type room struct {
	mu    sync.Mutex
	free  int64
	taken map[types.UID]int64
}

func newRoom(cpus int64) room { return room{free: cpus * 1000, taken: map[types.UID]int64{}} }

// enter reports whether the pod has room, which it has until it leaves.
func (r *room) enter(pod *corev1.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.taken[pod.UID]; ok {
		return true
	}
	wants := int64(0)
	for _, c := range pod.Spec.Containers {
		wants += c.Resources.Requests.Cpu().MilliValue()
	}
	if wants > r.free {
		return false
	}
	r.free -= wants
	r.taken[pod.UID] = wants
	return true
}

// leave gives the room of the pod back, if it had any.
func (r *room) leave(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += r.taken[pod.UID]
	delete(r.taken, pod.UID)
}
