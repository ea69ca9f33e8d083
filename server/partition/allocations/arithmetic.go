package allocations

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// anywhere is the address of a port that is used at all addresses.
const anywhere = "0.0.0.0"

// most bounds a sum: more than any node has, and far below what the scheduler's numbers
// can hold. Pods can ask for anything, and a sum that wraps around would look like room.
func most() resource.Quantity { return *resource.NewQuantity(1<<50, resource.DecimalSI) }

func bounded(q resource.Quantity) resource.Quantity {
	if limit := most(); q.Cmp(limit) > 0 {
		return limit
	}
	return q
}

// Add adds what o takes.
func (s *Share) Add(o Share) {
	if s.Requests == nil && len(o.Requests) > 0 {
		s.Requests = corev1.ResourceList{}
	}
	for name, quantity := range o.Requests {
		sum := s.Requests[name].DeepCopy()
		sum.Add(quantity)
		s.Requests[name] = bounded(sum)
	}
	s.Pods += o.Pods
	s.HostPorts = append(slices.Clip(s.HostPorts), o.HostPorts...)
}

// Normalize gives equal shares one form: nothing of a resource is not named, and ports
// are in order.
func (s *Share) Normalize() {
	maps.DeleteFunc(s.Requests, func(_ corev1.ResourceName, q resource.Quantity) bool { return q.IsZero() })
	for name, quantity := range s.Requests {
		s.Requests[name] = bounded(quantity)
	}
	if len(s.Requests) == 0 {
		s.Requests = nil
	}
	slices.SortFunc(s.HostPorts, func(a, b HostPort) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.IP, b.IP))
	})
	if s.HostPorts = slices.Compact(s.HostPorts); len(s.HostPorts) == 0 {
		s.HostPorts = nil
	}
}

// Empty reports whether nothing is taken.
func (s Share) Empty() bool {
	if s.Pods != 0 || len(s.HostPorts) > 0 {
		return false
	}
	for _, quantity := range s.Requests {
		if !quantity.IsZero() {
			return false
		}
	}
	return true
}

// Equal reports whether two normalized shares take the same.
func (s Share) Equal(o Share) bool {
	return s.Partition == o.Partition && s.Pods == o.Pods && slices.Equal(s.HostPorts, o.HostPorts) &&
		maps.EqualFunc(s.Requests, o.Requests, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
}

// Lowered reports whether s has something less than before had.
func (s Share) Lowered(before Share) bool {
	for name, was := range before.Requests {
		now := s.Requests[name]
		if now.Cmp(was) < 0 {
			return true
		}
	}
	return s.Pods < before.Pods || slices.ContainsFunc(before.HostPorts, func(p HostPort) bool {
		return !slices.Contains(s.HostPorts, p)
	})
}

// Raise gives a normalized share at least what o, another one, takes of each.
func (s *Share) Raise(o Share) {
	for name, quantity := range o.Requests {
		if now := s.Requests[name]; now.Cmp(quantity) < 0 {
			if s.Requests == nil {
				s.Requests = corev1.ResourceList{}
			}
			s.Requests[name] = quantity
		}
	}
	s.Pods = max(s.Pods, o.Pods)
	s.HostPorts = append(slices.Clip(s.HostPorts), o.HostPorts...)
	s.Normalize()
}

// Of is the share of a partition.
func (in *NodeAllocation) Of(partition string) Share {
	for _, s := range in.shares() {
		if s.Partition == partition {
			return s
		}
	}
	return Share{Partition: partition}
}

// Others is what all but a partition have together.
func (in *NodeAllocation) Others(partition string) Share {
	var sum Share
	for _, s := range in.shares() {
		if s.Partition != partition {
			sum.Add(s)
		}
	}
	sum.Normalize()
	return sum
}

func (in *NodeAllocation) shares() []Share {
	if in == nil {
		return nil
	}
	return in.Shares
}

// Set replaces the share of a partition, which is not awaited any more then. Shares are
// in the order of their names.
func (in *NodeAllocation) Set(s Share) {
	in.Awaited = slices.DeleteFunc(in.Awaited, func(partition string) bool { return partition == s.Partition })
	in.Shares = slices.DeleteFunc(in.Shares, func(o Share) bool { return o.Partition == s.Partition })
	if s.Empty() {
		return
	}
	in.Shares = append(in.Shares, s)
	slices.SortFunc(in.Shares, func(a, b Share) int { return cmp.Compare(a.Partition, b.Partition) })
}

// Full says why what a pod asks for is not there: own is what its partition takes with
// it, others what all others take, both of a node with allocatable. It is "" if all is
// there. As for upstream, a resource that the pod does not ask for does not matter.
func Full(pod, own, others Share, allocatable corev1.ResourceList) string {
	for _, name := range slices.Sorted(maps.Keys(pod.Requests)) {
		if asked := pod.Requests[name]; asked.IsZero() {
			continue
		}
		sum := own.Requests[name].DeepCopy()
		sum.Add(others.Requests[name])
		if has := allocatable[name]; sum.Cmp(has) > 0 {
			return fmt.Sprintf("of %s, %s would be taken of %s", name, sum.String(), has.String())
		}
	}
	if pods := allocatable[corev1.ResourcePods]; own.Pods+others.Pods > pods.Value() {
		return fmt.Sprintf("there would be %d pods, more than %s", own.Pods+others.Pods, pods.String())
	}
	for _, p := range pod.HostPorts {
		if i := slices.IndexFunc(others.HostPorts, p.conflicts); i >= 0 {
			return fmt.Sprintf("port %d/%s of the node is taken", p.Port, p.Protocol)
		}
	}
	return ""
}

func (p HostPort) conflicts(o HostPort) bool {
	return p.Port == o.Port && p.Protocol == o.Protocol &&
		(p.IP == o.IP || p.IP == anywhere || o.IP == anywhere)
}

// OfPod is what a pod takes, without the name of a partition; requests are what the
// scheduler counts.
func OfPod(pod *corev1.Pod, requests corev1.ResourceList) Share {
	s := Share{Requests: requests.DeepCopy(), Pods: 1}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, restartable(pod.Spec.InitContainers)} {
		for i := range containers {
			for _, p := range containers[i].Ports {
				if p.HostPort > 0 {
					s.HostPorts = append(s.HostPorts, HostPort{Port: int64(p.HostPort),
						Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), IP: cmp.Or(p.HostIP, anywhere)})
				}
			}
		}
	}
	s.Normalize()
	return s
}

// restartable are the init containers that run beside the others.
func restartable(containers []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for i := range containers {
		if p := containers[i].RestartPolicy; p != nil && *p == corev1.ContainerRestartPolicyAlways {
			out = append(out, containers[i])
		}
	}
	return out
}
