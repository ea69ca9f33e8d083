package networkpolicy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/a4s-io/a4s/internal/netpolicy"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// dice makes worlds that are small, so that what is selected often exists.
type dice struct{ *rand.Rand }

func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

func (d dice) chance(n int) bool { return d.IntN(n) == 0 }

func (d dice) labels() map[string]string {
	out := map[string]string{}
	for _, k := range []string{"app", "tier"} {
		if !d.chance(3) {
			out[k] = pick(d, "a", "b", "c")
		}
	}
	return out
}

func (d dice) selector() *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	if d.chance(3) {
		return s
	}
	if d.chance(2) {
		s.MatchLabels = map[string]string{pick(d, "app", "tier"): pick(d, "a", "b", "c")}
	}
	if d.chance(2) {
		e := metav1.LabelSelectorRequirement{Key: pick(d, "app", "tier"), Operator: pick(d, metav1.LabelSelectorOpIn,
			metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
			e.Values = []string{pick(d, "a", "b"), pick(d, "b", "c")}
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	return s
}

func (d dice) block() *networkingv1.IPBlock {
	if d.chance(3) {
		return &networkingv1.IPBlock{CIDR: pick(d, "::/0", "fd00:42::/120", "fd00:42::2/127"),
			Except: pick(d, nil, []string{"fd00:42::4/126"})}
	}
	return &networkingv1.IPBlock{
		CIDR: pick(d, "0.0.0.0/0", "10.42.0.0/29", "10.42.0.2/31", "255.255.255.255/32", "192.0.2.0/24"),
		Except: pick(d, nil, nil, []string{"10.42.0.3/32"}, []string{"10.42.0.0/30", "10.42.0.2/31"},
			[]string{"192.0.2.1/32", "192.0.2.128/25"}),
	}
}

func (d dice) peers() (out []networkingv1.NetworkPolicyPeer) {
	for range d.IntN(4) {
		p := networkingv1.NetworkPolicyPeer{}
		switch d.IntN(4) {
		case 0:
			p.PodSelector = d.selector()
		case 1:
			p.NamespaceSelector = d.selector()
		case 2:
			p.PodSelector, p.NamespaceSelector = d.selector(), d.selector()
		case 3:
			p.IPBlock = d.block()
		}
		out = append(out, p)
	}
	return out
}

func (d dice) policyPorts() (out []networkingv1.NetworkPolicyPort) {
	for range d.IntN(3) {
		p := networkingv1.NetworkPolicyPort{}
		if !d.chance(3) {
			protocol := pick(d, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
			p.Protocol = &protocol
		}
		if !d.chance(4) {
			number := intstr.FromInt32(pick(d, int32(80), 81, 90))
			if d.chance(3) {
				number = intstr.FromString(pick(d, "web", "other"))
			} else if d.chance(2) {
				end := number.IntVal + pick(d, int32(0), 1, 10)
				p.EndPort = &end
			}
			p.Port = &number
		}
		out = append(out, p)
	}
	return out
}

func (d dice) policy(namespace, name string) *networkingv1.NetworkPolicy {
	np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	np.Spec.PodSelector = *d.selector()
	np.Spec.PolicyTypes = pick(d, nil,
		[]networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		[]networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		[]networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress})
	for range d.IntN(3) {
		np.Spec.Ingress = append(np.Spec.Ingress,
			networkingv1.NetworkPolicyIngressRule{From: d.peers(), Ports: d.policyPorts()})
	}
	for range d.IntN(3) {
		np.Spec.Egress = append(np.Spec.Egress,
			networkingv1.NetworkPolicyEgressRule{To: d.peers(), Ports: d.policyPorts()})
	}
	return np
}

func (d dice) pod(namespace, name string, n int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(fmt.Sprint(name, "-", n)),
			Labels: d.labels()},
		Spec: corev1.PodSpec{NodeName: pick(d, "n1", "n2"), HostNetwork: d.chance(12)},
		Status: corev1.PodStatus{Phase: corev1.PodRunning,
			PodIPs: []corev1.PodIP{{IP: fmt.Sprintf("10.42.0.%d", n)}, {IP: fmt.Sprintf("fd00:42::%d", n)}}},
	}
	if d.chance(12) {
		p.Status.Phase = pick(d, corev1.PodFailed, corev1.PodSucceeded)
	}
	for _, port := range []corev1.ContainerPort{{Name: "web", ContainerPort: pick(d, int32(80), 81),
		Protocol: corev1.ProtocolTCP},
		{Name: "other", ContainerPort: 90, Protocol: pick(d, corev1.ProtocolTCP, corev1.ProtocolUDP)}} {
		if d.chance(2) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Ports: []corev1.ContainerPort{port}})
		}
	}
	return p
}

var (
	testNamespaces = []string{"one", "two", "one.t1", "two.t1", "one.t2"}
	testNodes      = []string{"n1", "n2"}
)

// simulation is a world, the controller that watches it, and what it tells.
type simulation struct {
	dice
	world
	c       *Controller
	watches map[string]*Watch
	nodes   map[string]*node
}

func newSimulation(seed uint64) *simulation {
	s := &simulation{
		dice: dice{rand.New(rand.NewPCG(seed, 1))},
		world: world{namespaces: map[string]*corev1.Namespace{}, pods: map[string]*corev1.Pod{},
			policies: map[string]*networkingv1.NetworkPolicy{}},
		c: New(nil, interning.New(), nil), watches: map[string]*Watch{}, nodes: map[string]*node{},
	}
	s.c.publish(map[string]*result{}, true)
	for _, name := range testNodes {
		w, _ := s.c.Watch(name)
		s.watches[name], s.nodes[name] = w, &node{}
	}
	return s
}

// change replaces or removes one object of each kind.
func (s *simulation) change() {
	observe := func(obj any, deleted bool) {
		kept, err := trimmer(s.c.pool)(obj)
		if err != nil {
			panic(err)
		}
		s.c.observe(kept, deleted)
	}
	for _, name := range testNamespaces {
		if s.namespaces[name] == nil || s.chance(8) {
			s.namespaces[name] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.labels()}}
			observe(s.namespaces[name].DeepCopy(), false)
		}
	}
	for i := range 8 { // a pod's number decides its address
		namespace := testNamespaces[i%len(testNamespaces)]
		key := fmt.Sprint(namespace, "/p", i)
		if old := s.pods[key]; old != nil && s.chance(4) {
			delete(s.pods, key)
			observe(old.DeepCopy(), true)
		} else if old == nil || s.chance(4) {
			s.pods[key] = s.pod(namespace, fmt.Sprint("p", i), i+1)
			observe(s.pods[key].DeepCopy(), false)
		}
	}
	for i := range 5 {
		namespace := pick(s.dice, testNamespaces...)
		key := fmt.Sprint(namespace, "/np", i)
		if old := s.policies[key]; old != nil && !s.chance(3) {
			delete(s.policies, key)
			observe(old.DeepCopy(), true)
		} else if s.chance(2) {
			s.policies[key] = s.policy(namespace, fmt.Sprint("np", i))
			observe(s.policies[key].DeepCopy(), false)
		}
	}
	s.c.round()
	for name, w := range s.watches {
		lines := w.Next()
		text, err := json.Marshal(lines)
		if err != nil {
			panic(err)
		}
		var read []netpolicy.Line
		if err := json.Unmarshal(text, &read); err != nil {
			panic(err)
		}
		s.nodes[name].apply(read)
	}
}

// enforced judges as the nodes of both sides do together.
func (s *simulation) enforced(c connection) bool {
	if p := s.at(c.from); p != nil {
		n := s.nodes[p.Spec.NodeName]
		if told := n.pods[p.Namespace+"/"+p.Name]; !n.off && (told == nil || !n.allows(told.Egress, false, c.to, c)) {
			return false
		}
	}
	if p := s.at(c.to); p != nil {
		n := s.nodes[p.Spec.NodeName]
		if told := n.pods[p.Namespace+"/"+p.Name]; !n.off &&
			(told == nil || !n.allows(told.Ingress, true, c.from, c)) {
			return false
		}
	}
	return true
}

func (s *simulation) check(t *testing.T) {
	t.Helper()
	ends := []netip.Addr{}
	for _, a := range []string{"192.0.2.1", "192.0.2.200", "255.255.255.255", "2001:db8::1"} {
		ends = append(ends, netip.MustParseAddr(a))
	}
	for i := range 8 {
		ends = append(ends, netip.MustParseAddr(fmt.Sprintf("10.42.0.%d", i+1)),
			netip.MustParseAddr(fmt.Sprintf("fd00:42::%d", i+1)))
	}
	for _, from := range ends {
		for _, to := range ends {
			if from == to || from.BitLen() != to.BitLen() {
				continue
			}
			for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
				for _, port := range []int32{80, 81, 90, 443} {
					c := connection{from, to, protocol, port}
					if got, want := s.enforced(c), s.allows(c); got != want {
						policies, _ := json.MarshalIndent(s.policies, "", " ")
						t.Fatalf("%+v: enforced %v, the API says %v\nfrom %+v\nto %+v\n%s", c, got, want,
							s.at(from), s.at(to), policies)
					}
				}
			}
		}
	}
	for name, n := range s.nodes { // nothing is left behind, and nobody else's pod is told
		for key, p := range n.pods {
			if have := s.pods[key]; have == nil || have.Spec.NodeName != name || string(have.UID) != p.UID {
				t.Fatalf("%s was told of %+v, which is not there", name, p)
			}
		}
		named := map[string]bool{}
		for _, p := range n.pods {
			for _, id := range append(p.Ingress, p.Egress...) {
				named[id] = true
			}
		}
		if len(named) != len(n.policies) {
			t.Fatalf("%s knows the policies %v and needs %v", name, n.policies, named)
		}
	}
}

func FuzzNodesEnforceWhatTheAPISays(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		s := newSimulation(seed)
		for range 4 {
			s.change()
			s.check(t)
		}
	})
}

// TestConnectionsOfTheSimulationDiffer makes sure that the fuzz test compares
// more than one answer.
func TestConnectionsOfTheSimulationDiffer(t *testing.T) {
	allowed, refused := 0, 0
	for seed := range uint64(50) {
		s := newSimulation(seed)
		s.change()
		for i := range 8 {
			for j := range 8 {
				c := connection{netip.MustParseAddr(fmt.Sprintf("10.42.0.%d", i+1)),
					netip.MustParseAddr(fmt.Sprintf("10.42.0.%d", j+1)), corev1.ProtocolTCP, 80}
				if s.allows(c) {
					allowed++
				} else {
					refused++
				}
			}
		}
	}
	if allowed < 500 || refused < 500 {
		t.Errorf("%d connections are allowed, %d are not", allowed, refused)
	}
}

func TestAddressOfTwoPods(t *testing.T) {
	mine := &pod{namespace: "one", name: "mine", node: "n1", addrs: []netip.Addr{netip.MustParseAddr("10.42.0.1")}}
	good := &pod{namespace: "one", name: "good", node: "n2", labels: map[string]string{"app": "good"},
		addrs: []netip.Addr{netip.MustParseAddr("10.42.0.2")}, ports: []port{{"web", "TCP", 80}}}
	next := &pod{namespace: "one", name: "next", node: "n2", addrs: good.addrs}
	web := intstr.FromString("web")
	np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: "np"},
		Spec: networkingv1.NetworkPolicySpec{
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{From: []networkingv1.NetworkPolicyPeer{
					{PodSelector: &metav1.LabelSelector{MatchLabels: good.labels}},
				}},
			},
			Egress: []networkingv1.NetworkPolicyEgressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &web}}}},
		}}
	for _, tc := range []struct {
		name string
		pods []*pod
		want int
	}{
		{"one owner", []*pod{mine, good}, 1},
		{"one of two is no peer and has no such port", []*pod{mine, good, next}, 0},
		{"both are", []*pod{mine, good, {namespace: "one", name: "twin", node: "n2", labels: good.labels,
			addrs: good.addrs, ports: good.ports}}, 1},
	} {
		r := resolve(view{space: "system", policies: []*networkingv1.NetworkPolicy{np},
			subjects: tc.pods, peers: tc.pods})
		if len(r.sets) != 2 {
			t.Fatalf("%s: sets %v", tc.name, r.sets)
		}
		for id, s := range r.sets {
			if len(s.members) != tc.want {
				t.Errorf("%s: the set %s has %v", tc.name, id, s.members)
			}
		}
	}
}
