package servicelb

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

type change = func(*corev1.Service)

// svc is a Service of an age in seconds with TCP ports.
func svc(namespace, name string, age int, ports []int32, changes ...change) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name),
			CreationTimestamp: metav1.NewTime(time.Unix(int64(1000-age), 0))},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
	}
	for _, p := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: p})
	}
	for _, f := range changes {
		f(s)
	}
	return s
}

func has(ip string) change {
	return func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
	}
}

func inPool(pool string) change {
	return func(s *corev1.Service) { s.Annotations = map[string]string{PoolLabel: pool} }
}

func udp(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }

func local(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

func node(name, ip string, ready bool, labels map[string]string, more ...corev1.NodeAddress) *corev1.Node {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}},
			Addresses: append([]corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: name},
				{Type: corev1.NodeInternalIP, Address: ip},
			}, more...),
		},
	}
}

func TestAllocate(t *testing.T) {
	const none = ""
	a, b := node("a", "192.0.2.1", true, nil), node("b", "192.0.2.2", true, nil)
	both := []*corev1.Node{b, a}
	for name, c := range map[string]struct {
		services []*corev1.Service
		nodes    []*corev1.Node
		granted  map[types.UID][]Port
		want     map[string]string // addresses, or "!" and a part of the refusal
	}{
		"every node that is ready": {
			[]*corev1.Service{svc("default", "web", 1, []int32{80})},
			append(both, node("c", "192.0.2.3", false, nil)), nil,
			map[string]string{"default/web": "192.0.2.1 192.0.2.2"},
		},
		"the older one": {
			[]*corev1.Service{svc("default", "a", 1, []int32{80, 81}), svc("default", "b", 2, []int32{443, 80})}, both,
			nil,
			map[string]string{"default/a": "!80/TCP of the nodes is taken by Service default/b",
				"default/b": "192.0.2.1 192.0.2.2"},
		},
		"the one that has it already": {
			[]*corev1.Service{svc("default", "a", 1, []int32{80}, has("192.0.2.1")),
				svc("default", "b", 2, []int32{80})}, both, nil,
			map[string]string{"default/a": "192.0.2.1 192.0.2.2", "default/b": "!default/a"},
		},
		"the one that got it, not the one that changed to it": {
			[]*corev1.Service{svc("default", "a", 1, []int32{80}, has("192.0.2.1")),
				svc("default", "b", 2, []int32{80}, has("192.0.2.1"))}, both,
			map[types.UID][]Port{"default/a": {{"TCP", 80}}, "default/b": {{"TCP", 81}}},
			map[string]string{"default/a": "192.0.2.1 192.0.2.2", "default/b": "!default/a"},
		},
		"a node that is not ready keeps its Service": {
			[]*corev1.Service{svc("default", "a", 2, []int32{80}), svc("default", "b", 1, []int32{80})},
			[]*corev1.Node{node("a", "192.0.2.1", false, nil)}, nil,
			map[string]string{"default/a": none, "default/b": "!default/a"},
		},
		"another protocol": {
			[]*corev1.Service{svc("default", "a", 1, []int32{53}), svc("default", "b", 2, []int32{53}, udp)}, both,
			nil,
			map[string]string{"default/a": "192.0.2.1 192.0.2.2", "default/b": "192.0.2.1 192.0.2.2"},
		},
		"other tenants are not named": {
			[]*corev1.Service{svc("default.t1", "a", 9, []int32{80}), svc("default.t2", "b", 2, []int32{80}),
				svc("default.t1", "c", 2, []int32{80}), svc("default", "d", 1, []int32{80})}, both, nil,
			map[string]string{
				"default.t1/a": "192.0.2.1 192.0.2.2", "default.t2/b": "!taken by a Service outside of this space",
				"default.t1/c": "!taken by Service default/a", "default/d": "!taken by Service default.t1/a",
			},
		},
		"ports of the node": {
			[]*corev1.Service{svc("default", "ssh", 1, []int32{80, 22}),
				svc("default", "node-port", 1, []int32{30080}), svc("default", "web", 1, []int32{80})}, both, nil,
			map[string]string{"default/ssh": "!port 22 is", "default/node-port": "!30000-32767",
				"default/web": "192.0.2.1 192.0.2.2"},
		},
		"not wanted here": {
			[]*corev1.Service{
				svc("default", "other", 1, []int32{80},
					func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("example.com/lb") }),
				svc("default", "plain", 1, []int32{80},
					func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }),
				svc("default", "going", 1, []int32{80},
					func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(2000, 0)} }),
			}, both, nil, map[string]string{},
		},
		"nodes with endpoints": {
			[]*corev1.Service{svc("default", "web", 1, []int32{80}, local)}, both, nil,
			map[string]string{"default/web": "192.0.2.2"},
		},
		"chosen nodes and pools": {
			[]*corev1.Service{svc("default", "all", 1, []int32{80}), svc("default", "blue", 1, []int32{81},
				inPool("blue")), svc("default", "red", 1, []int32{81}, inPool("red"))},
			[]*corev1.Node{
				a,
				node("blue", "192.0.2.4", true, map[string]string{EnableLabel: "true", PoolLabel: "blue"}),
				node("red", "192.0.2.5", true, map[string]string{EnableLabel: "true", PoolLabel: "red"}),
				node("out", "192.0.2.6", true,
					map[string]string{EnableLabel: "true", corev1.LabelNodeExcludeBalancers: ""}),
			}, nil,
			map[string]string{"default/all": "192.0.2.4 192.0.2.5", "default/blue": "192.0.2.4",
				"default/red": "192.0.2.5"},
		},
		"chosen nodes and pools by the labels of k3s": {
			[]*corev1.Service{svc("default", "all", 1, []int32{80}), svc("default", "blue", 1, []int32{81},
				func(s *corev1.Service) {
					s.Labels = map[string]string{"svccontroller.k3s.cattle.io/lbpool": "blue"}
				})},
			[]*corev1.Node{
				a,
				node("blue", "192.0.2.4", true, map[string]string{"svccontroller.k3s.cattle.io/enablelb": "true",
					"svccontroller.k3s.cattle.io/lbpool": "blue"}),
				node("red", "192.0.2.5", true, map[string]string{"svccontroller.k3s.cattle.io/enablelb": "true"}),
			}, nil,
			map[string]string{"default/all": "192.0.2.4 192.0.2.5", "default/blue": "192.0.2.4"},
		},
		"addresses of the family, external ones first": {
			[]*corev1.Service{svc("default", "web", 1, []int32{80})},
			[]*corev1.Node{node("a", "192.0.2.1", true, nil,
				corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "2001:db8::1"},
				corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "198.51.100.1"})}, nil,
			map[string]string{"default/web": "198.51.100.1 192.0.2.1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := state{
				services: c.services, nodes: c.nodes, granted: c.granted,
				local: func(*corev1.Service) map[string]bool { return map[string]bool{"b": true} },
				rules: &Rules{Used: []int32{22, 6443}, First: 30000, Last: 32767},
			}
			got := s.allocate()
			if len(got) != len(c.want) {
				t.Errorf("%d Services were looked at, want %d", len(got), len(c.want))
			}
			for uid, want := range c.want {
				o := got[types.UID(uid)]
				if part, refused := strings.CutPrefix(want, "!"); refused {
					if o.refused == "" || !strings.Contains(o.refused, part) || len(o.ingress) > 0 {
						t.Errorf("%s gets %+v, want a refusal with %q", uid, o, part)
					}
					continue
				}
				var ips []string
				for _, i := range o.ingress {
					ips = append(ips, i.IP)
				}
				if o.refused != "" || !slices.Equal(ips, strings.Fields(want)) {
					t.Errorf("%s gets %v (%s), want %s", uid, ips, o.refused, want)
				}
			}
		})
	}
}

// TestNodesOfPartitions: a node is for the Services of one partition.
func TestNodesOfPartitions(t *testing.T) {
	of := func(partition, carries string) map[string]string {
		labels := map[string]string{}
		if partition != "" {
			labels[partitionapi.ResourcePartitionLabel] = partition
		}
		if carries != "" {
			labels[PartitionLabel] = carries
		}
		return labels
	}
	own, copied := node("own", "192.0.2.1", true, of("", "")), node("copy", "192.0.2.2", true, of("rp2", ""))
	given := node("given", "192.0.2.3", true, of("rp2", "tp2"))
	away, back := node("away", "192.0.2.4", true, of("", "main")), node("back", "192.0.2.5", true, of("", "tp2"))
	for name, c := range map[string]struct {
		nodes  []*corev1.Node
		system string
		tenant string
	}{
		"its own, and what it was given": {[]*corev1.Node{own, copied, given, away, back},
			"192.0.2.5 192.0.2.3 192.0.2.1", "192.0.2.5 192.0.2.3 192.0.2.1"},
		"none": {[]*corev1.Node{copied, away}, "!a4s.io/lb-partition=tp2", "!the administrators of the cluster"},
		// As ever: it may get some.
		"a cluster without nodes": {nil, "", ""},
	} {
		s := state{partition: "tp2", rules: &Rules{}, services: []*corev1.Service{
			svc("default", "web", 1, []int32{80}), svc("default.t1", "web", 1, []int32{81})}}
		s.use(c.nodes)
		got := s.allocate()
		for uid, want := range map[types.UID]string{"default/web": c.system, "default.t1/web": c.tenant} {
			var ips []string
			for _, i := range got[uid].ingress {
				ips = append(ips, i.IP)
			}
			if part, refused := strings.CutPrefix(want, "!"); refused != (got[uid].refused != "") ||
				refused && !strings.Contains(got[uid].refused, part) ||
				!refused && !slices.Equal(ips, strings.Fields(want)) {
				t.Errorf("%s: %s gets %+v, want %s", name, uid, got[uid], want)
			}
		}
		if refused := got["default.t1/web"].refused; strings.Contains(refused, "tp2") {
			t.Errorf("%s: a tenant learns of a partition: %s", name, refused)
		}
	}
}

// TestNodePortsOfOthers: a Service would take the port from theirs.
func TestNodePortsOfOthers(t *testing.T) {
	var others []utilnet.PortRange
	rules := &Rules{First: 31000, Last: 31999, Others: func() []utilnet.PortRange { return others }}
	if why := rules.Refuse(30080); why != "" {
		t.Errorf("a port that is free is refused: %s", why)
	}
	others = []utilnet.PortRange{{Base: 30000, Size: 1000}}
	if why := rules.Refuse(30080); !strings.Contains(why, "30000-30999") {
		t.Errorf("a node port of another partition: %q", why)
	}
	for port, refused := range map[int32]bool{29999: false, 30999: true, 31000: true, 32000: false} {
		if why := rules.Refuse(port); (why != "") != refused {
			t.Errorf("port %d: %q", port, why)
		}
	}
}
