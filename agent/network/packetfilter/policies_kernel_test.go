package packetfilter

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/internal/netpolicy"
	"github.com/a4s-io/a4s/tests/nstest"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func peers(id string, addrs ...string) netpolicy.Line {
	l := netpolicy.Line{Set: &netpolicy.Set{ID: id}}
	for _, a := range addrs {
		l.Set.Add = append(l.Set.Add, netpolicy.Member{Addr: addr(a)})
	}
	return l
}

func TestKernelEnforcesPolicies(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	names := []string{"web", "good", "bad", "client", "new"}
	m := newMachine(t, names...)
	clusters := []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16"), netip.MustParsePrefix("fd00:42::/56")}
	owners := map[netip.Addr]localpods.Owner{}
	for i, name := range names {
		for _, a := range []string{fmt.Sprintf("10.42.0.%d", 5+i), fmt.Sprintf("fd00:42::%d", 5+i)} {
			owners[addr(a)] = localpods.Owner{Namespace: "default.t1", Name: name, UID: "uid-" + name}
		}
	}
	// Another node, with pods, and a machine outside. A Service of the node
	// has a backend in the pod web.
	m.addNode("5 6 7")
	nstest.Shell(m.t, `
		nft -f - <<-END
			table ip services {
				chain pre { type nat hook prerouting priority dstnat; ip daddr 10.43.0.5 tcp dport 80 dnat to 10.42.0.5:7000; }
				chain post { type nat hook postrouting priority srcnat; ct status dnat ip saddr 10.42.0.5 ip daddr 10.42.0.5 masquerade; }
			}
		END`)
	ports := []string{":7000", ":7001", ":7002", ":7003"}
	for _, name := range names {
		for _, p := range ports {
			m.serve(name, p)
		}
	}
	for _, ip := range []string{"192.0.2.2", "10.42.1.5", "10.42.1.6", "10.42.1.7"} { // each answers from itself
		for _, p := range ports {
			m.serve("far", ip+p)
		}
	}
	m.serve("", ":7000")

	f := kernelFilter(t)
	// Tenants are one here, so their part changes nothing of what follows.
	tenants := tenantState{local: map[netip.Addr]localpods.Pod{}, bridge: "br0", clusters: clusters}
	for a := range owners {
		tenants.local[a] = localpods.Pod{Tenant: "t1"}
	}
	tenants.known = pods(map[string]localpods.Pod{"10.42.1.5": {Tenant: "t1"}, "10.42.1.6": {Tenant: "t1"},
		"10.42.1.7": {Tenant: "t1"}})
	if err := f.write(t.Context(), &f.tenants, tenants.render()); err != nil {
		t.Fatal(err)
	}
	nstest.Shell(t, "nft add table inet a4s_policies") // of an earlier version
	known := newKnowledge()
	tell := func(batch ...netpolicy.Line) {
		t.Helper()
		known = known.with(batch)
		now := time.Now()
		since := map[netip.Addr]time.Time{}
		for a := range owners {
			since[a] = now
		}
		s := policyState{known: known, owners: owners, bridge: "br0", since: since, now: now, clusters: clusters}
		next, _, _ := s.render()
		if err := f.write(t.Context(), &f.policies, next); err != nil {
			t.Fatal(err)
		}
	}
	pod := func(name string, ingress, egress []string) netpolicy.Line {
		return netpolicy.Line{Pod: &netpolicy.Pod{Namespace: "default.t1", Name: name, UID: "uid-" + name,
			Ingress: ingress, Egress: egress}}
	}
	type attempt struct {
		name, pod, from, network, to string
		want                         bool
	}
	check := func(attempts ...attempt) {
		t.Helper()
		for _, a := range attempts {
			if got := m.reaches(a.pod, a.from, a.network, a.to); got != a.want {
				t.Errorf("%s: %s from %q to %s with %s: %v, want %v", a.name, a.pod, a.from, a.to,
					a.network, got, a.want)
			}
		}
		if t.Failed() {
			out, _ := exec.Command("nft", "list", "ruleset").CombinedOutput()
			t.Fatalf("the rules:\n%s", out)
		}
	}

	const block = "default.t1/blocks"
	tell(
		peers("good", "10.42.0.6", "fd00:42::6", "10.42.1.5"),
		netpolicy.Line{Set: &netpolicy.Set{ID: "named", Endpoints: true,
			Add: []netpolicy.Member{{Addr: addr("10.42.0.5"), Protocol: "TCP", Port: 7001},
				{Addr: addr("10.42.0.7"), Protocol: "UDP", Port: 7000}}}},
		netpolicy.Line{Policy: &netpolicy.Policy{ID: "default.t1/peers", Ingress: []netpolicy.Rule{{Peers: "good",
			Ports: []netpolicy.Ports{{Protocol: "TCP", First: 7000, Last: 7000}, {Protocol: "UDP"},
				{Protocol: "SCTP", First: 7000, Last: 7010}, {Protocol: "SCTP", First: 7005, Last: 7020}}}}}},
		netpolicy.Line{Policy: &netpolicy.Policy{ID: block, Ingress: []netpolicy.Rule{{
			Blocks: []netpolicy.Range{
				{First: addr("10.42.1.6"), Last: addr("10.42.1.6")},
				{First: addr("192.0.2.2"), Last: addr("192.0.2.3")},
			}, Ports: []netpolicy.Ports{{Protocol: "TCP", First: 7002, Last: 7003}},
		}, {AnyPeer: true, Named: []string{"named"}}}}},
		netpolicy.Line{Policy: &netpolicy.Policy{ID: "default.t1/out",
			Egress: []netpolicy.Rule{{Blocks: []netpolicy.Range{{First: addr("0.0.0.0"),
				Last: addr("255.255.255.255")}}, Named: []string{"named"}}, {Peers: "good", AnyPort: true}}}},
		netpolicy.Line{Policy: &netpolicy.Policy{ID: "default.t1/deny"}},
		pod("web", []string{"default.t1/peers", block}, nil), pod("good", nil, nil), pod("bad", nil, nil),
		pod("client", []string{"default.t1/deny"}, []string{"default.t1/out"}),
	)
	check(
		attempt{"a peer", "good", "", "tcp", "10.42.0.5:7000", true},
		attempt{"a peer, another port", "good", "", "tcp", "10.42.0.5:7002", false},
		attempt{"a peer, any port of a protocol", "good", "", "udp", "10.42.0.5:7003", true},
		attempt{"a peer, IPv6", "good", "", "tcp", "[fd00:42::5]:7000", true},
		attempt{"no peer", "bad", "", "tcp", "10.42.0.5:7000", false},
		attempt{"no peer, IPv6", "bad", "", "udp", "[fd00:42::5]:7000", false},
		attempt{"a named port", "bad", "", "tcp", "10.42.0.5:7001", true},
		attempt{"a named port, the other protocol", "bad", "", "udp", "10.42.0.5:7001", false},
		attempt{"a peer on another node", "far", "10.42.1.5", "tcp", "10.42.0.5:7000", true},
		attempt{"a block", "far", "10.42.1.6", "tcp", "10.42.0.5:7003", true},
		attempt{"a block, another port", "far", "10.42.1.6", "tcp", "10.42.0.5:7000", false},
		attempt{"not in the block", "far", "10.42.1.7", "tcp", "10.42.0.5:7002", false},
		attempt{"a block outside", "far", "192.0.2.2", "tcp", "10.42.0.5:7002", true},
		attempt{"through a Service, a peer", "good", "", "tcp", "10.43.0.5:80", true},
		attempt{"through a Service, no peer", "bad", "", "tcp", "10.43.0.5:80", false},
		attempt{"through a Service, itself", "web", "", "tcp", "10.43.0.5:80", true},
		attempt{"the node", "", "", "tcp", "10.42.0.5:7003", true},
		attempt{"the node to one that nobody may reach", "", "", "tcp", "10.42.0.8:7000", true},
		attempt{"to the node", "client", "", "tcp", "10.42.0.1:7000", true},
		attempt{"pods under no policy", "good", "", "tcp", "10.42.0.7:7000", true},
		attempt{"out to a peer", "client", "", "udp", "10.42.0.6:7002", true},
		attempt{"out to a peer on another node", "client", "", "tcp", "10.42.1.5:7000", true},
		attempt{"out to no peer", "client", "", "tcp", "10.42.0.7:7000", false},
		attempt{"out to no peer on another node", "client", "", "tcp", "10.42.1.6:7000", false},
		attempt{"out to the world", "client", "", "tcp", "192.0.2.2:7000", false},
		attempt{"out to a named port", "client", "", "udp", "10.42.0.7:7000", true},
		attempt{"out, and not in on the other side", "client", "", "tcp", "10.42.0.5:7000", false},
		attempt{"out, and in by a named port", "client", "", "tcp", "10.42.0.5:7001", true},
		attempt{"nobody in", "good", "", "udp", "10.42.0.8:7000", false},
		attempt{"a pod that nobody spoke of", "good", "", "tcp", "10.42.0.9:7000", false},
		attempt{"from such a pod", "new", "", "tcp", "10.42.0.6:7000", false},
		attempt{"from such a pod to the world", "new", "", "tcp", "192.0.2.2:7000", false},
	)
	if link := m.linkLocal("web"); m.reaches("bad", "", "tcp", net.JoinHostPort(link+"%eth0", "7000")) {
		t.Error("an isolated pod is reached at its link-local address")
	}

	// Changes, each told as a difference; what is open stays open.
	open, err := m.dial("good", "", "tcp", "10.42.0.5:7000")
	if err != nil || !echoes(open, 10*time.Second) {
		t.Fatal("no connection to keep: ", err)
	}
	defer open.Close()
	tell(
		netpolicy.Line{Set: &netpolicy.Set{ID: "good", Add: []netpolicy.Member{{Addr: addr("10.42.0.7")}},
			Remove: []netpolicy.Member{{Addr: addr("10.42.0.6")}}}},
		pod("new", []string{"default.t1/peers"}, nil),
		pod("client", nil, nil),
		netpolicy.Line{Policy: &netpolicy.Policy{ID: "default.t1/deny", Deleted: true}},
		netpolicy.Line{Policy: &netpolicy.Policy{ID: "default.t1/out", Deleted: true}},
	)
	if !echoes(open, 10*time.Second) {
		t.Error("an open connection ended with the rule that had allowed it")
	}
	check(
		attempt{"no peer any more", "good", "", "tcp", "10.42.0.5:7000", false},
		attempt{"a new peer", "bad", "", "tcp", "10.42.0.5:7000", true},
		attempt{"a pod that was spoken of", "bad", "", "tcp", "10.42.0.9:7000", true},
		attempt{"which has its policies", "good", "", "tcp", "10.42.0.9:7000", false},
		attempt{"out, under no policy", "client", "", "tcp", "192.0.2.2:7000", true},
		attempt{"in, under no policy", "good", "", "tcp", "10.42.0.8:7000", true},
	)
	// Another program takes the table away; the whole of it is written again.
	nstest.Shell(m.t, "nft delete table inet "+TableName)
	tell(pod("web", []string{"default.t1/peers"}, nil))
	check(
		attempt{"a policy less", "bad", "", "tcp", "10.42.0.5:7001", false},
		attempt{"and one that stays", "bad", "", "tcp", "10.42.0.5:7000", true},
	)
	if there, err := f.there(t.Context(), &f.policies); !there || err != nil {
		t.Error("the policies' part is not found: ", err)
	}
	// A run that knows nothing of the kernel replaces one part, not the other.
	f.tenants.forget()
	if err := f.write(t.Context(), &f.tenants, tenants.render()); err != nil {
		t.Fatal(err)
	}
	f.policies.forget()
	tell(pod("web", []string{"default.t1/peers", block}, nil))
	check(
		attempt{"written over what there was", "bad", "", "tcp", "10.42.0.5:7001", true},
		attempt{"and what is not allowed", "good", "", "tcp", "10.42.0.5:7003", false},
	)
	if err := f.remove(t.Context(), &f.policies); err != nil {
		t.Error(err)
	}
	if there, err := f.there(t.Context(), &f.policies); there || err != nil {
		t.Error("the policies' part is still there: ", err)
	}
	check(attempt{"without policies", "good", "", "tcp", "10.42.0.5:7003", true})
	if there, err := f.there(t.Context(), &f.tenants); !there || err != nil {
		t.Error("the tenants' part went with the policies': ", err)
	}
	if tables, err := netfilter.Tables(t.Context()); err != nil ||
		slices.ContainsFunc(tables, func(t netfilter.Table) bool { return t.Name == "a4s_policies" }) {
		t.Errorf("the table of an earlier version is still there: %v, %v", tables, err)
	}
}

// linkLocal returns the address that a pod has from nobody.
func (m machine) linkLocal(pod string) (out string) {
	m.t.Helper()
	if err := nstest.In(pod, func() error {
		ifc, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		addrs, err := ifc.Addrs()
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsLinkLocalUnicast() {
				out = p.Addr().String()
			}
		}
		return err
	}); err != nil || out == "" {
		m.t.Fatal("no link-local address to try: ", err)
	}
	return out
}
