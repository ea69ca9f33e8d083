package packetfilter

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/tests/nstest"
)

func TestKernelKeepsTenantsApart(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	m := newMachine(t, "a1", "a2", "b1", "sys", "lent", "new")
	// Another node, with a pod of each kind, and a machine outside.
	m.addNode("0 5 6 7 99")
	local := pods(map[string]localpods.Pod{
		"10.42.0.5": {Tenant: "a"}, "10.42.0.6": {Tenant: "a"}, "10.42.0.7": {Tenant: "b"},
		"10.42.0.8": {Tenant: "system"}, "10.42.0.9": {Tenant: "system", Shared: true},
		"fd00:42::5": {Tenant: "a"}, "fd00:42::6": {Tenant: "a"}, "fd00:42::7": {Tenant: "b"},
		"fd00:42::8": {Tenant: "system"}, "fd00:42::9": {Tenant: "system", Shared: true},
	})
	known := pods(map[string]localpods.Pod{
		"10.42.1.0": {Tenant: "system", Shared: true}, "10.42.1.5": {Tenant: "a"}, "10.42.1.6": {Tenant: "b"},
		"10.42.1.7": {Tenant: "system"},
	})
	s := tenantState{
		clusters: []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16"), netip.MustParsePrefix("fd00:42::/56")},
		bridge:   "br0", local: local, known: known,
	}
	f := kernelFilter(t)
	nstest.Shell(t, "nft add table inet a4s_tenants") // of an earlier version
	for range 2 {                                     // a second time over the first
		f.tenants.forget()
		if err := f.write(t.Context(), &f.tenants, s.render()); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := f.there(t.Context(), &f.tenants); !there || err != nil {
		t.Errorf("there = %v, %v", there, err)
	}
	if tables, err := netfilter.Tables(t.Context()); err != nil ||
		!slices.Equal(tables, []netfilter.Table{{Family: "inet", Name: TableName}}) {
		t.Errorf("the tables are %v, %v", tables, err)
	}
	for _, name := range []string{"a1", "a2", "b1", "sys", "lent", "new"} {
		m.serve(name, ":7000")
	}
	// each answers from itself
	for _, ip := range []string{"192.0.2.2", "10.42.1.5", "10.42.1.6", "10.42.1.7", "10.42.1.99"} {
		m.serve("far", ip+":7000")
	}
	for _, c := range []struct {
		name, pod, from, to string
		want                bool
	}{
		{"own pod, same node", "a1", "10.42.0.5", "10.42.0.6", true},
		{"another tenant, same node", "a1", "10.42.0.5", "10.42.0.7", false},
		{"and back", "b1", "10.42.0.7", "10.42.0.5", false},
		{"system pod", "a1", "10.42.0.5", "10.42.0.8", false},
		{"shared system pod", "a1", "10.42.0.5", "10.42.0.9", true},
		{"system to tenant", "sys", "10.42.0.8", "10.42.0.7", true},
		{"system to system", "sys", "10.42.0.8", "10.42.0.9", true},
		{"a pod that nobody knows yet", "a1", "10.42.0.5", "10.42.0.10", false},
		{"from such a pod", "new", "10.42.0.10", "10.42.0.5", false},
		{"system to a pod that nobody knows yet", "sys", "10.42.0.8", "10.42.0.10", true},
		{"IPv6: own pod", "a1", "fd00:42::5", "fd00:42::6", true},
		{"IPv6: another tenant", "a1", "fd00:42::5", "fd00:42::7", false},
		{"IPv6: system pod", "a1", "fd00:42::5", "fd00:42::8", false},
		{"IPv6: shared system pod", "a1", "fd00:42::5", "fd00:42::9", true},
		{"other node: own pod", "a1", "10.42.0.5", "10.42.1.5", true},
		{"other node: another tenant", "a1", "10.42.0.5", "10.42.1.6", false},
		{"other node: system pod", "a1", "10.42.0.5", "10.42.1.7", false},
		{"other node: unknown address", "a1", "10.42.0.5", "10.42.1.99", false},
		{"from other node: own pod", "far", "10.42.1.5", "10.42.0.5", true},
		{"from other node: another tenant", "far", "10.42.1.6", "10.42.0.5", false},
		{"from other node: another tenant to system", "far", "10.42.1.6", "10.42.0.8", false},
		{"from other node: system", "far", "10.42.1.7", "10.42.0.5", true},
		{"from other node: the node", "far", "10.42.1.0", "10.42.0.5", true},
		{"from other node: unknown address", "far", "10.42.1.99", "10.42.0.5", false},
		{"from other node: unknown address to system", "far", "10.42.1.99", "10.42.0.8", true},
		{"outside", "a1", "10.42.0.5", "192.0.2.2", true},
		{"from outside", "far", "192.0.2.2", "10.42.0.5", true},
	} {
		if got := m.reaches(c.pod, c.from, "udp", net.JoinHostPort(c.to, "7000")); got != c.want {
			t.Errorf("%s: %s to %s: %v, want %v", c.name, c.from, c.to, got, c.want)
		}
	}

	// Pods have link-local addresses that nobody gave them.
	link := func(pod string) (out netip.Addr) {
		err := nstest.In(pod, func() error {
			ifc, err := net.InterfaceByName("eth0")
			if err != nil {
				return err
			}
			addrs, err := ifc.Addrs()
			for _, a := range addrs {
				if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsLinkLocalUnicast() {
					out = p.Addr()
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if to := link("b1"); to.IsValid() {
		if m.reaches("a1", link("a1").WithZone("eth0").String(), "udp",
			net.JoinHostPort(to.WithZone("eth0").String(), "7000")) {
			t.Error("another tenant is reached at its link-local address")
		}
	} else {
		t.Error("no link-local address to try")
	}

	// What is allowed may change, and later packets feel it.
	s.local[netip.MustParseAddr("10.42.0.10")] = localpods.Pod{Tenant: "a"}
	if err := f.write(t.Context(), &f.tenants, s.render()); err != nil {
		t.Fatal(err)
	}
	if !m.reaches("a1", "10.42.0.5", "udp", "10.42.0.10:7000") ||
		m.reaches("b1", "10.42.0.7", "udp", "10.42.0.10:7000") {
		t.Error("a pod that became known is not treated as its tenant's")
	}
}

// kernelFilter is a filter that writes to the kernel, and has no server.
func kernelFilter(t *testing.T) *filter {
	t.Helper()
	f := newFilter(Options{
		Pods: localpods.New(localpods.Options{Client: fake.NewClientset(), NodeName: "n1", Results: t.TempDir()}),
	})
	if f.nft, f.unusable = f.open(t.Context()); f.unusable != nil {
		t.Fatal(f.unusable)
	}
	return f
}
