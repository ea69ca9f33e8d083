package shares

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/a4s-io/a4s/server/partition/allocations"
)

// othersNamespace is that of the pods that stand for others. There is no such namespace,
// so nothing that selects namespaces selects it.
const othersNamespace = "a4s-other-partitions"

// other is what other partitions have on a node.
type other struct {
	share allocations.Share
	// pod stands for them in the cache of the scheduler; nil if they have nothing.
	pod *corev1.Pod
	// awaited is the resource partition of the node while some of them have to say what they have.
	awaited string
}

// tell brings the scheduler's view of what others have on a node up to date.
func (s *shares) tell(name string) {
	s.telling.Lock()
	defer s.telling.Unlock()
	var now other
	if node, err := s.nodes.Get(name); err == nil {
		if rp := s.partitionOf(node); rp != nil {
			a := rp.allocation(name)
			now.share = a.Others(s.o.Partition)
			if a != nil && slices.ContainsFunc(a.Awaited, func(p string) bool { return p != s.o.Partition }) {
				now.awaited = rp.name
			}
		}
	}
	s.mu.RLock()
	was := s.others[name]
	s.mu.RUnlock()
	if was.share.Equal(now.share) && was.awaited == now.awaited {
		return
	}
	if now.pod = was.pod; !was.share.Equal(now.share) {
		now.pod = s.stand(name, was.pod, now.share)
	}
	s.mu.Lock()
	if now.pod == nil && now.awaited == "" {
		delete(s.others, name)
	} else {
		s.others[name] = now
	}
	s.awaits(name, was.awaited, now.awaited)
	s.mu.Unlock()
	if now.share.Lowered(was.share) || was.awaited != "" && now.awaited == "" {
		s.waker.freed(name, was.share)
	}
}

// awaits takes note that the resource partition of a node that is awaited was one and is
// another now, "" for none. The caller holds mu.
func (s *shares) awaits(node, was, now string) {
	if was == now {
		return
	}
	if delete(s.awaited[was], node); len(s.awaited[was]) == 0 {
		delete(s.awaited, was)
	}
	if now == "" {
		return
	}
	if s.awaited[now] == nil {
		s.awaited[now] = map[string]struct{}{}
	}
	s.awaited[now][node] = struct{}{}
}

// stand replaces the pod that stands for others.
func (s *shares) stand(name string, was *corev1.Pod, share allocations.Share) *corev1.Pod {
	log := klog.Background()
	var now *corev1.Pod
	var err error
	switch {
	case !share.Empty() && was == nil:
		now = standIn(name, share)
		err = s.sched.Cache.AddPod(log, now)
	case !share.Empty():
		now = standIn(name, share)
		err = s.sched.Cache.UpdatePod(log, was, now)
	case was != nil:
		err = s.sched.Cache.RemovePod(log, was)
	}
	if err != nil {
		s.o.Log.WithError(err).WithField("node", name).Error("cannot tell the scheduler what other partitions have")
	}
	return now
}

// standIn is a pod that takes what others have. Nothing preempts it.
func standIn(node string, share allocations.Share) *corev1.Pod {
	highest := int32(math.MaxInt32)
	c := corev1.Container{Name: "others", Resources: corev1.ResourceRequirements{Requests: share.Requests}}
	for _, p := range share.HostPorts {
		c.Ports = append(c.Ports, corev1.ContainerPort{
			ContainerPort: int32(p.Port), HostPort: int32(p.Port), Protocol: p.Protocol, HostIP: p.IP})
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: othersNamespace,
			UID: types.UID(othersNamespace + "/" + node)},
		Spec:   corev1.PodSpec{NodeName: node, Priority: &highest, Containers: []corev1.Container{c}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// awaitedOn is on how many nodes of a resource partition others have to say what they have.
func (s *shares) awaitedOn(partition string) (n int, one string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for one = range s.awaited[partition] {
		break
	}
	return len(s.awaited[partition]), one
}
