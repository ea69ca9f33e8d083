package merge

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/a4s-io/a4s/agent/origin"
)

// A node has each of its ports once, and partitions with equal ranges of node ports give out the
// same ones. A port is open for the Services of the first partition whose range has it: that of
// the node, home, and the others by name. So nobody takes another partition's port by choosing it.

// precedes orders partitions by who has node ports first.
func precedes(a, b origin.Partition) int {
	first := func(yes, no bool) int {
		switch {
		case yes == no:
			return 0
		case yes:
			return -1
		}
		return 1
	}
	return cmp.Or(first(a.Node, b.Node), first(a.Home, b.Home), cmp.Compare(a.Name, b.Name))
}

// taken are the ranges of node ports that a partition does not have here. The caller holds mu.
func (c *Collections) taken(m *member) []utilnet.PortRange {
	var before []origin.Partition
	for _, other := range c.members {
		if precedes(other.Partition, m.Partition) < 0 {
			before = append(before, other.Partition)
		}
	}
	slices.SortFunc(before, precedes)
	var out []utilnet.PortRange
	for _, p := range before {
		out = append(out, p.NodePorts)
	}
	return out
}

// reopen lets partitions list their Services again whose node ports are others, now that one has
// come or gone. The caller holds mu.
func (c *Collections) reopen() error {
	s := c.sets[servicesResource]
	for _, m := range c.members {
		from := m.sources[s]
		if from == nil || slices.Equal(from.taken, c.taken(m)) {
			continue
		}
		if end := m.ends[s]; end != nil {
			end()
			delete(m.ends, s)
		}
		if err := c.start(s, m, from); err != nil {
			return err
		}
	}
	return nil
}

// closePorts takes the node ports of a Service that are not its partition's.
func closePorts(obj runtime.Object, taken []utilnet.PortRange) {
	service, ok := obj.(*corev1.Service)
	if !ok {
		return
	}
	closed := func(port int32) bool {
		return slices.ContainsFunc(taken, func(r utilnet.PortRange) bool {
			return r.Size == 0 || r.Contains(int(port)) // of an unknown one anything may be
		})
	}
	for i := range service.Spec.Ports {
		if p := &service.Spec.Ports[i]; closed(p.NodePort) {
			p.NodePort = 0
		}
	}
	if closed(service.Spec.HealthCheckNodePort) {
		service.Spec.HealthCheckNodePort = 0
	}
}
