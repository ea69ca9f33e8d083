package servicelb

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Rules are the ports of nodes that no Service gets: kube-proxy would take
// them away from what listens there.
type Rules struct {
	// Used are the ports of a4s itself and what the operator adds, whatever
	// the protocol.
	Used []int32
	// First and Last are the range of node ports, in which every Service may
	// have any.
	First, Last int32
	// Ingress are the ports at which nodes take requests for Ingresses. Tenants get them only if an administrator
	// says so: whoever had one would have the requests of all.
	Ingress []Port
	// Others are the ranges of node ports of other partitions, whose Services have theirs on
	// the same nodes. Nil means none.
	Others func() []utilnet.PortRange
}

// Refuse says why no Service gets a port; empty if one may.
func (r *Rules) Refuse(port int32) string {
	switch {
	case slices.Contains(r.Used, port):
		return fmt.Sprintf("port %d is one that nodes need for themselves", port)
	case port >= r.First && port <= r.Last:
		return fmt.Sprintf("port %d is in the range of node ports, %d-%d", port, r.First, r.Last)
	case r.Others == nil:
		return ""
	}
	for _, other := range r.Others() {
		if other.Contains(int(port)) {
			return fmt.Sprintf("port %d is in a range of node ports, %s", port, other.String())
		}
	}
	return ""
}

// Port is what a Service takes of a node.
type Port struct {
	Protocol corev1.Protocol
	Number   int32
}

// String implements fmt.Stringer.
func (p Port) String() string { return fmt.Sprintf("%d/%s", p.Number, p.Protocol) }

// PortsOf are the ports of a Service.
func PortsOf(service *corev1.Service) []Port {
	var out []Port
	for _, p := range service.Spec.Ports {
		protocol := p.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		out = append(out, Port{protocol, p.Port})
	}
	return out
}

// Wanted reports whether a Service is to get addresses here.
func Wanted(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.Spec.LoadBalancerClass == nil &&
		service.DeletionTimestamp == nil
}
