package networkpolicy

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/a4s-io/a4s/internal/netpolicy"
)

// pod is what matters of a pod with addresses of its own.
type pod struct {
	namespace, name, uid, node string
	labels                     labels.Set
	addrs                      []netip.Addr
	ports                      []port
}

// port is a port that a container of a pod gives a name.
type port struct {
	name, protocol string
	number         uint16
}

// view is what decides about the policies of one space.
type view struct {
	space    string
	policies []*networkingv1.NetworkPolicy
	// subjects are the pods of the space, peers those that its policies can
	// mean, and namespaces has the labels of theirs.
	subjects   []*pod
	peers      []*pod
	namespaces map[string]labels.Set
}

// result is what the policies of one space come to.
type result struct {
	nodes    map[string]map[string]*netpolicy.Pod // by node and key
	policies map[string]*netpolicy.Policy
	sets     map[string]*set
}

// set is not changed any more once it is part of a result.
type set struct {
	endpoints bool
	members   map[netpolicy.Member]bool
}

// resolver resolves one view.
type resolver struct {
	view
	out         *result
	byNamespace map[string][]*pod
	claims      map[netip.Addr]int // how many pods claim an address
	selected    map[string][]*pod  // by selection
}

// resolve works out what the nodes have to enforce for the policies of v.
func resolve(v view) *result {
	r := &resolver{
		view: v, byNamespace: map[string][]*pod{}, claims: map[netip.Addr]int{}, selected: map[string][]*pod{},
		out: &result{nodes: map[string]map[string]*netpolicy.Pod{}, policies: map[string]*netpolicy.Policy{},
			sets: map[string]*set{}},
	}
	for _, p := range v.peers {
		r.byNamespace[p.namespace] = append(r.byNamespace[p.namespace], p)
		for _, a := range p.addrs {
			r.claims[a]++
		}
	}
	subjects := map[string][]*netpolicy.Pod{}
	byWire := map[*netpolicy.Pod]*pod{}
	for _, p := range v.subjects {
		told := &netpolicy.Pod{Namespace: p.namespace, Name: p.name, UID: p.uid}
		if r.out.nodes[p.node] == nil {
			r.out.nodes[p.node] = map[string]*netpolicy.Pod{}
		}
		r.out.nodes[p.node][told.Key()] = told
		subjects[p.namespace] = append(subjects[p.namespace], told)
		byWire[told] = p
	}
	// In the order of their names, so that equal states are told alike.
	slices.SortFunc(r.view.policies, func(a, b *networkingv1.NetworkPolicy) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	for _, np := range r.view.policies {
		selector, err := metav1.LabelSelectorAsSelector(&np.Spec.PodSelector)
		if err != nil {
			continue // refused by validation
		}
		ingress, egress := directions(np)
		id, used := np.Namespace+"/"+np.Name, false
		for _, told := range subjects[np.Namespace] {
			if !selector.Matches(byWire[told].labels) {
				continue
			}
			used = true
			if ingress {
				told.Ingress = append(told.Ingress, id)
			}
			if egress {
				told.Egress = append(told.Egress, id)
			}
		}
		if used {
			r.out.policies[id] = r.policy(np, id, ingress, egress)
		}
	}
	return r.out
}

// directions are those in which np isolates the pods that it selects.
func directions(np *networkingv1.NetworkPolicy) (ingress, egress bool) {
	if len(np.Spec.PolicyTypes) == 0 { // the API server's own default
		return true, len(np.Spec.Egress) > 0
	}
	return slices.Contains(np.Spec.PolicyTypes, networkingv1.PolicyTypeIngress),
		slices.Contains(np.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
}

func (r *resolver) policy(np *networkingv1.NetworkPolicy, id string, ingress, egress bool) *netpolicy.Policy {
	out := &netpolicy.Policy{ID: id}
	if ingress {
		for _, rule := range np.Spec.Ingress {
			// The destination is a pod of the policy's namespace.
			out.Ingress = append(out.Ingress, r.rule(np.Namespace, rule.From, rule.Ports, np.Namespace))
		}
	}
	if egress {
		for _, rule := range np.Spec.Egress {
			out.Egress = append(out.Egress, r.rule(np.Namespace, rule.To, rule.Ports, ""))
		}
	}
	return out
}

// rule resolves one rule of a policy in namespace. Destinations are in the
// namespace that is given, or anywhere in the view.
func (r *resolver) rule(
	namespace string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort,
	destinations string,
) netpolicy.Rule {
	rule := netpolicy.Rule{AnyPeer: len(peers) == 0, AnyPort: len(ports) == 0}
	var blocks []*networkingv1.IPBlock
	var selections []string
	for i := range peers {
		switch peer := &peers[i]; {
		case peer.IPBlock != nil:
			blocks = append(blocks, peer.IPBlock)
		case peer.PodSelector != nil || peer.NamespaceSelector != nil:
			if key, ok := r.selectPeers(namespace, peer); ok {
				selections = append(selections, key)
			}
		}
	}
	rule.Blocks = blockRanges(blocks)
	if len(selections) > 0 {
		rule.Peers = r.peerSet(selections)
	}
	for _, p := range ports {
		protocol := string(corev1.ProtocolTCP)
		if p.Protocol != nil {
			protocol = string(*p.Protocol)
		}
		switch {
		case p.Port == nil:
			rule.Ports = append(rule.Ports, netpolicy.Ports{Protocol: protocol})
		case p.Port.Type == intstr.String:
			if id := r.namedSet(destinations, p.Port.StrVal, protocol); !slices.Contains(rule.Named, id) {
				rule.Named = append(rule.Named, id)
			}
		case p.Port.IntVal > 0 && p.Port.IntVal <= 65535:
			first := uint16(p.Port.IntVal)
			last := first
			if p.EndPort != nil && *p.EndPort >= p.Port.IntVal && *p.EndPort <= 65535 {
				last = uint16(*p.EndPort)
			}
			rule.Ports = append(rule.Ports, netpolicy.Ports{Protocol: protocol, First: first, Last: last})
		}
	}
	return rule
}

// selectPeers remembers which pods a peer means, and returns under which key.
func (r *resolver) selectPeers(namespace string, peer *networkingv1.NetworkPolicyPeer) (key string, ok bool) {
	pods := labels.Everything()
	var err error
	if peer.PodSelector != nil {
		if pods, err = metav1.LabelSelectorAsSelector(peer.PodSelector); err != nil {
			return "", false // refused by validation
		}
	}
	if peer.NamespaceSelector == nil {
		key = strings.Join([]string{"in", namespace, pods.String()}, "\x00")
		if _, known := r.selected[key]; !known {
			r.selected[key] = matching(nil, r.byNamespace[namespace], pods)
		}
		return key, true
	}
	namespaces, err := metav1.LabelSelectorAsSelector(peer.NamespaceSelector)
	if err != nil {
		return "", false
	}
	key = strings.Join([]string{"of", namespaces.String(), pods.String()}, "\x00")
	if _, known := r.selected[key]; !known {
		var found []*pod
		for name, set := range r.namespaces {
			if namespaces.Matches(set) {
				found = matching(found, r.byNamespace[name], pods)
			}
		}
		r.selected[key] = found
	}
	return key, true
}

func matching(found, pods []*pod, selector labels.Selector) []*pod {
	for _, p := range pods {
		if selector.Matches(p.labels) {
			found = append(found, p)
		}
	}
	return found
}

// peerSet returns the set of the addresses of all pods that are selected.
func (r *resolver) peerSet(selections []string) string {
	slices.Sort(selections)
	selections = slices.Compact(selections)
	id := r.id("peers\x00" + strings.Join(selections, "\x01"))
	if r.out.sets[id] != nil {
		return id
	}
	found := map[*pod]bool{}
	votes := map[netip.Addr]int{}
	for _, key := range selections {
		for _, p := range r.selected[key] {
			if found[p] {
				continue
			}
			found[p] = true
			for _, a := range p.addrs {
				votes[a]++
			}
		}
	}
	s := &set{members: map[netpolicy.Member]bool{}}
	for a, n := range votes {
		if n == r.claims[a] {
			s.members[netpolicy.Member{Addr: a}] = true
		}
	}
	r.out.sets[id] = s
	return id
}

// namedSet returns the set of the ports that pods give a name, in one namespace
// or in all of the view.
func (r *resolver) namedSet(namespace, name, protocol string) string {
	id := r.id(strings.Join([]string{"named", namespace, name, protocol}, "\x00"))
	if r.out.sets[id] != nil {
		return id
	}
	pods := r.view.peers
	if namespace != "" {
		pods = r.byNamespace[namespace]
	}
	votes := map[netpolicy.Member]int{}
	for _, p := range pods {
		number, ok := p.port(name, protocol)
		if !ok {
			continue
		}
		for _, a := range p.addrs {
			votes[netpolicy.Member{Addr: a, Protocol: protocol, Port: number}]++
		}
	}
	s := &set{endpoints: true, members: map[netpolicy.Member]bool{}}
	for m, n := range votes {
		if n == r.claims[m.Addr] {
			s.members[m] = true
		}
	}
	r.out.sets[id] = s
	return id
}

// id makes the name of a set of what it is made of.
func (r *resolver) id(of string) string {
	sum := sha256.Sum256([]byte(strconv.Quote(r.space) + of))
	return hex.EncodeToString(sum[:12])
}

// port returns the number of a named port: the first one counts, as it does for
// Services.
func (p *pod) port(name, protocol string) (uint16, bool) {
	for _, c := range p.ports {
		if c.name == name && c.protocol == protocol {
			return c.number, true
		}
	}
	return 0, false
}
