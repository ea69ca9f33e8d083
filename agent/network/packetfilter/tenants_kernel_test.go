package packetfilter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/tests/nstest"
)

// tenantMachine is a node as machine is, where datagrams are sent.
type tenantMachine struct{ t *testing.T }

// serve answers every datagram to address in the namespace of pod.
func (m tenantMachine) serve(pod, address string) {
	m.t.Helper()
	err := nstest.In(pod, func() error {
		conn, err := net.ListenPacket("udp", address)
		if err != nil {
			return err
		}
		m.t.Cleanup(func() { _ = conn.Close() })
		go func() {
			buf := make([]byte, 64)
			for {
				n, from, err := conn.ReadFrom(buf)
				if err != nil {
					return
				}
				_, _ = conn.WriteTo(buf[:n], from) // the asker notices
			}
		}()
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// reaches reports whether an answer comes back from address.
func (m tenantMachine) reaches(pod, from, address string) bool {
	m.t.Helper()
	answered := false
	err := nstest.In(pod, func() error {
		d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
		conn, err := d.Dial("udp", address)
		if err != nil {
			return err
		}
		defer conn.Close()
		for range 2 { // the first one may be lost while the neighbour is asked for
			if _, err := conn.Write([]byte("?")); err != nil {
				return err
			}
			if err := conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
				return err
			}
			buf := make([]byte, 64)
			if _, err := conn.Read(buf); err == nil {
				answered = true
				return nil
			} else if !errors.Is(err, os.ErrDeadlineExceeded) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		m.t.Fatalf("%s asks %s: %v", from, address, err)
	}
	return answered
}

func TestKernelKeepsTenantsApart(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	if err := netfilter.Probe(context.Background()).Nftables; err != nil {
		t.Skip("nftables does not work here: ", err)
	}
	m := tenantMachine{t}
	nstest.Shell(m.t, `mount -t tmpfs none /run
		ip link add br0 type bridge
		ip addr add 10.42.0.1/24 dev br0
		ip addr add fd00:42::1/64 dev br0 nodad
		ip link set br0 up
		echo 1 > /proc/sys/net/ipv4/ip_forward
		echo 1 > /proc/sys/net/ipv6/conf/all/forwarding`)
	if value, err := os.ReadFile("/proc/sys/net/bridge/bridge-nf-call-iptables"); err != nil ||
		strings.TrimSpace(string(value)) != "1" {
		t.Skipf("bridged packets do not pass the packet filter here: %q, %v", value, err)
	}
	for i, name := range []string{"a1", "a2", "b1", "sys", "lent", "new"} {
		nstest.Shell(m.t, fmt.Sprintf(`ip netns add %[1]s
			ip link add v%[1]s type veth peer name eth0 netns %[1]s
			ip link set v%[1]s master br0 up
			bridge link set dev v%[1]s hairpin on
			ip -n %[1]s link set lo up
			ip -n %[1]s addr add 10.42.0.%[2]d/24 dev eth0
			ip -n %[1]s addr add fd00:42::%[2]d/64 dev eth0 nodad
			ip -n %[1]s link set eth0 up
			ip -n %[1]s route add default via 10.42.0.1
			ip -n %[1]s route add default via fd00:42::1`, name, 5+i))
	}
	// Another node, with a pod of each kind, and a machine outside.
	nstest.Shell(m.t, `ip netns add far
		ip link add vfar type veth peer name eth0 netns far
		ip addr add 192.0.2.1/24 dev vfar
		ip link set vfar up
		ip -n far link set lo up
		ip -n far addr add 192.0.2.2/24 dev eth0
		for i in 0 5 6 7 99; do ip -n far addr add 10.42.1.$i/32 dev lo; done
		ip -n far link set eth0 up
		ip -n far route add 10.42.0.0/24 via 192.0.2.1
		ip route add 10.42.1.0/24 via 192.0.2.2`)
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
		if got := m.reaches(c.pod, c.from, net.JoinHostPort(c.to, "7000")); got != c.want {
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
		if m.reaches("a1", link("a1").WithZone("eth0").String(),
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
	if !m.reaches("a1", "10.42.0.5", "10.42.0.10:7000") || m.reaches("b1", "10.42.0.7", "10.42.0.10:7000") {
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
