package networkpolicy

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/a4s-io/a4s/internal/netpolicy"
	"github.com/a4s-io/a4s/internal/space"
)

// world is a cluster as the API has it.
type world struct {
	namespaces map[string]*corev1.Namespace
	pods       map[string]*corev1.Pod
	policies   map[string]*networkingv1.NetworkPolicy
}

// connection is what an oracle judges. Addresses that no pod has are outside.
type connection struct {
	from, to netip.Addr
	protocol corev1.Protocol
	port     int32
}

// allows judges by the text of the API's reference, one connection and one
// object at a time; it shares nothing with what it is compared to.
func (w *world) allows(c connection) bool {
	from, to := w.at(c.from), w.at(c.to)
	if from != nil && !w.side(from, networkingv1.PolicyTypeEgress, to, c.to, to, c) {
		return false
	}
	return to == nil || w.side(to, networkingv1.PolicyTypeIngress, from, c.from, to, c)
}

func (w *world) at(addr netip.Addr) *corev1.Pod {
	for _, p := range w.pods {
		for _, ip := range p.Status.PodIPs {
			if ip.IP == addr.String() && !p.Spec.HostNetwork && p.Status.Phase == corev1.PodRunning {
				return p
			}
		}
	}
	return nil
}

// side judges one direction of the policies on a pod.
func (w *world) side(
	subject *corev1.Pod, direction networkingv1.PolicyType, other *corev1.Pod, otherAddr netip.Addr,
	destination *corev1.Pod, c connection,
) bool {
	isolated := false
	for _, np := range w.policies {
		if np.Namespace != subject.Namespace || !matches(&np.Spec.PodSelector, subject.Labels) ||
			!isolates(np, direction) {
			continue
		}
		isolated = true
		if direction == networkingv1.PolicyTypeIngress {
			for _, rule := range np.Spec.Ingress {
				if w.peersMatch(np, rule.From, other, otherAddr) &&
					w.portsMatch(np, direction, rule.Ports, destination, c) {
					return true
				}
			}
			continue
		}
		for _, rule := range np.Spec.Egress {
			if w.peersMatch(np, rule.To, other, otherAddr) && w.portsMatch(np, direction, rule.Ports, destination, c) {
				return true
			}
		}
	}
	return !isolated
}

func isolates(np *networkingv1.NetworkPolicy, direction networkingv1.PolicyType) bool {
	if np.Spec.PolicyTypes == nil {
		return direction == networkingv1.PolicyTypeIngress || np.Spec.Egress != nil
	}
	for _, t := range np.Spec.PolicyTypes {
		if t == direction {
			return true
		}
	}
	return false
}

func (w *world) peersMatch(
	np *networkingv1.NetworkPolicy, peers []networkingv1.NetworkPolicyPeer, other *corev1.Pod, addr netip.Addr,
) bool {
	if len(peers) == 0 {
		return true
	}
	for _, p := range peers {
		if p.IPBlock != nil {
			in := netip.MustParsePrefix(p.IPBlock.CIDR).Contains(addr)
			for _, e := range p.IPBlock.Except {
				in = in && !netip.MustParsePrefix(e).Contains(addr)
			}
			if in {
				return true
			}
			continue
		}
		if other == nil || !w.sees(np, other) {
			continue
		}
		if p.NamespaceSelector == nil && other.Namespace != np.Namespace {
			continue
		}
		if p.NamespaceSelector != nil && !matches(p.NamespaceSelector, w.namespaces[other.Namespace].Labels) {
			continue
		}
		if p.PodSelector == nil || matches(p.PodSelector, other.Labels) {
			return true
		}
	}
	return false
}

// sees reports whether a policy can mean a pod at all.
func (w *world) sees(np *networkingv1.NetworkPolicy, p *corev1.Pod) bool {
	tenant := space.OfNamespace(np.Namespace)
	return tenant == "system" || tenant == space.OfNamespace(p.Namespace)
}

func (w *world) portsMatch(
	np *networkingv1.NetworkPolicy, direction networkingv1.PolicyType, ports []networkingv1.NetworkPolicyPort,
	destination *corev1.Pod, c connection,
) bool {
	if len(ports) == 0 {
		return true
	}
	for _, p := range ports {
		if protocol := p.Protocol; protocol == nil && c.protocol != corev1.ProtocolTCP ||
			protocol != nil && *protocol != c.protocol {
			continue
		}
		switch {
		case p.Port == nil:
			return true
		case p.Port.Type == intstr.String:
			if destination == nil || !w.sees(np, destination) {
				continue
			}
			for _, container := range destination.Spec.Containers {
				for _, cp := range container.Ports {
					if cp.Name == p.Port.StrVal && cp.Protocol == c.protocol && cp.ContainerPort == c.port {
						return true
					}
				}
			}
		case p.EndPort != nil:
			if c.port >= p.Port.IntVal && c.port <= *p.EndPort {
				return true
			}
		case c.port == p.Port.IntVal:
			return true
		}
	}
	return false
}

func matches(s *metav1.LabelSelector, labels map[string]string) bool {
	for k, v := range s.MatchLabels {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		have, ok := labels[e.Key]
		in := ok && slices.Contains(e.Values, have)
		good := map[metav1.LabelSelectorOperator]bool{
			metav1.LabelSelectorOpIn: in, metav1.LabelSelectorOpNotIn: !in,
			metav1.LabelSelectorOpExists: ok, metav1.LabelSelectorOpDoesNotExist: !ok,
		}
		if !good[e.Operator] {
			return false
		}
	}
	return true
}

// node is what one node was told.
type node struct {
	off      bool
	pods     map[string]*netpolicy.Pod
	policies map[string]*netpolicy.Policy
	sets     map[string]map[netpolicy.Member]bool
}

func (n *node) apply(lines []netpolicy.Line) {
	for _, l := range lines {
		switch {
		case l.Off:
			*n = node{off: true}
			continue
		case n.off || n.pods == nil:
			*n = node{pods: map[string]*netpolicy.Pod{}, policies: map[string]*netpolicy.Policy{},
				sets: map[string]map[netpolicy.Member]bool{}}
		}
		switch {
		case l.Pod != nil && l.Pod.Deleted:
			delete(n.pods, l.Pod.Key())
		case l.Pod != nil:
			n.pods[l.Pod.Key()] = l.Pod
		case l.Policy != nil && l.Policy.Deleted:
			delete(n.policies, l.Policy.ID)
		case l.Policy != nil:
			n.policies[l.Policy.ID] = l.Policy
		case l.Set != nil && l.Set.Deleted:
			delete(n.sets, l.Set.ID)
		case l.Set != nil:
			if n.sets[l.Set.ID] == nil {
				n.sets[l.Set.ID] = map[netpolicy.Member]bool{}
			}
			for _, m := range l.Set.Add {
				n.sets[l.Set.ID][m] = true
			}
			for _, m := range l.Set.Remove {
				delete(n.sets[l.Set.ID], m)
			}
		}
	}
}

// allows judges as a node does, by what it was told.
func (n *node) allows(policies []string, ingress bool, peer netip.Addr, c connection) bool {
	if len(policies) == 0 {
		return true
	}
	for _, id := range policies {
		rules := n.policies[id].Egress
		if ingress {
			rules = n.policies[id].Ingress
		}
		for _, r := range rules {
			peers := r.AnyPeer || n.sets[r.Peers][netpolicy.Member{Addr: peer}]
			for _, b := range r.Blocks {
				peers = peers || peer.BitLen() == b.First.BitLen() && !peer.Less(b.First) && !b.Last.Less(peer)
			}
			ports := r.AnyPort
			for _, p := range r.Ports {
				ports = ports || p.Protocol == string(c.protocol) && (p.Last == 0 ||
					int32(p.First) <= c.port && c.port <= int32(p.Last))
			}
			for _, id := range r.Named {
				ports = ports ||
					n.sets[id][netpolicy.Member{Addr: c.to, Protocol: string(c.protocol), Port: uint16(c.port)}]
			}
			if peers && ports {
				return true
			}
		}
	}
	return false
}
