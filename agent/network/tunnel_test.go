package network

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flannel-io/flannel/pkg/ip"
	"github.com/flannel-io/flannel/pkg/lease"
	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/tests/nstest"
)

var updateTunnel = flag.Bool("update-tunnel", false, "rewrite the golden files of the tunnel's rules")

func addrs(of ...string) (out []netip.Addr) {
	for _, a := range of {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func TestWallV14TunnelRules(t *testing.T) {
	one, dual := netip.MustParsePrefix("10.42.0.0/16"), netip.MustParsePrefix("fd00:42::/56")
	for name, got := range map[string]string{
		"tunnel-alone": tunnelRules([]netip.Prefix{one}, addrs("192.0.2.1")),
		"tunnel-nodes": tunnelRules([]netip.Prefix{one, dual}, addrs("192.0.2.2", "192.0.2.1", "2001:db8::1")),
	} {
		file := filepath.Join("testdata", name+".nft")
		if *updateTunnel {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: got:\n%s\nwant:\n%s", name, got, want)
		}
	}
}

// datagrams is a UDP port in a network namespace.
func datagrams(t *testing.T, where, address string, echo bool) net.PacketConn {
	t.Helper()
	var conn net.PacketConn
	err := nstest.In(where, func() (err error) {
		conn, err = net.ListenPacket("udp", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if echo {
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
	}
	return conn
}

// TestWallV14NoPodReachesTheTunnel: in the kernel, with a pod, two more nodes of
// which one is known, and a Service's translation of addresses.
func TestWallV14NoPodReachesTheTunnel(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	if err := netfilter.Probe(t.Context()).Nftables; err != nil {
		t.Skip("nftables does not work here: ", err)
	}
	nstest.Shell(t, `mount -t tmpfs none /run
		echo 1 > /proc/sys/net/ipv4/ip_forward
		ip link add `+BridgeName+` type bridge
		ip addr add 10.42.0.1/24 dev `+BridgeName+`
		ip link set `+BridgeName+` up
		ip link add up0 type bridge
		ip addr add 192.0.2.1/24 dev up0
		ip link set up0 up
		for i in 5 6; do
			ip netns add pod$i
			ip link add vpod$i type veth peer name eth0 netns pod$i
			ip link set vpod$i master `+BridgeName+` up
			ip -n pod$i addr add 10.42.0.$i/24 dev eth0
			ip -n pod$i link set eth0 up
			ip -n pod$i route add default via 10.42.0.1
		done
		for i in 2 3; do
			ip netns add node$i
			ip link add vnode$i type veth peer name eth0 netns node$i
			ip link set vnode$i master up0 up
			ip -n node$i addr add 192.0.2.$i/24 dev eth0
			ip -n node$i link set eth0 up
			ip -n node$i route add 10.42.0.0/24 via 192.0.2.1
		done
		nft -f - <<EOF
		table ip services {
			chain prerouting {
				type nat hook prerouting priority dstnat; policy accept;
				udp dport 30000 dnat to 192.0.2.1:8472
				udp dport 30001 dnat to 192.0.2.2:8472
				udp dport 30002 dnat to 192.0.2.1:7000
				udp dport 30003 dnat to 192.0.2.3:8472
			}
			chain postrouting {
				type nat hook postrouting priority srcnat; policy accept;
				ip daddr != 10.42.0.0/16 oifname "up0" masquerade
			}
		}
EOF`)
	for _, where := range []string{"", "pod6", "node2", "node3"} {
		datagrams(t, where, ":8472", true)
		datagrams(t, where, ":7000", true)
	}
	reaches := func(from, to string) bool {
		conn := datagrams(t, from, ":0", false)
		target := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to))
		for range 2 { // the first one may be lost while the neighbour is asked for
			if _, err := conn.WriteTo([]byte("?"), target); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			_, _, err := conn.ReadFrom(make([]byte, 64))
			if err == nil {
				return true
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
		}
		return false
	}
	rules := tunnelRules([]netip.Prefix{netip.MustParsePrefix("10.42.0.0/16")}, addrs("192.0.2.1", "192.0.2.2"))
	for _, with := range []bool{false, true} {
		if with {
			for range 2 { // a second time over the first
				if err := netfilter.Apply(t.Context(), rules); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, c := range []struct {
			name, from, to string
			want           bool
		}{
			{"a pod to its node", "pod5", "192.0.2.1:8472", false},
			{"a pod to its gateway", "pod5", "10.42.0.1:8472", false},
			{"a pod to another node", "pod5", "192.0.2.2:8472", false},
			{"a pod to a node that is not known yet", "pod5", "192.0.2.3:8472", false},
			{"a pod by a Service to its node", "pod5", "192.0.2.1:30000", false},
			{"a pod by a Service to another node", "pod5", "192.0.2.1:30001", false},
			{"a pod elsewhere by a NodePort", "node2", "192.0.2.1:30000", false},
			{"the same to another node", "node3", "192.0.2.1:30001", false},
			{"the same to a node that is not known yet", "node2", "192.0.2.1:30003", false},
			{"a stranger", "node3", "192.0.2.1:8472", false},
			{"another node", "node2", "192.0.2.1:8472", true},
			{"this node", "", "192.0.2.2:8472", true},
			{"a pod to a pod", "pod5", "10.42.0.6:8472", true},
			{"a pod to another port", "pod5", "192.0.2.2:7000", true},
			{"a NodePort of another port", "node3", "192.0.2.1:30002", true},
		} {
			if got := reaches(c.from, c.to); got != (c.want || !with) {
				t.Errorf("%s (rules: %v): %v", c.name, with, got)
			}
		}
	}
}

// TestWallV14TunnelFollowsNodes: the rules know a node before flannel does.
func TestWallV14TunnelFollowsNodes(t *testing.T) {
	var mu sync.Mutex
	var scripts []string
	there := false
	rules := &tunnel{
		clusters: []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16")}, self: netip.MustParseAddr("192.0.2.1"),
		log: logrus.NewEntry(logrus.StandardLogger()), nodes: map[string]netip.Addr{},
		apply: func(_ context.Context, script string) error {
			mu.Lock()
			defer mu.Unlock()
			scripts, there = append(scripts, script), true
			if len(scripts) == 2 {
				return errors.New("busy") // and tried again
			}
			return nil
		},
		tables: func(context.Context) ([]netfilter.Table, error) {
			mu.Lock()
			defer mu.Unlock()
			if there {
				return []netfilter.Table{{Family: "inet", Name: TunnelTable}}, nil
			}
			return nil, nil
		},
	}
	for range 2 {
		if err := rules.restore(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(scripts) != 1 || !strings.Contains(scripts[0], "elements = { 192.0.2.1 }") {
		t.Fatalf("first rules: %q", scripts)
	}
	sm := &leases{events: make(chan lease.Event, 8)}
	ctx, cancel := context.WithCancel(t.Context())
	receiver, ended := make(chan []lease.LeaseWatchResult), make(chan error, 1)
	go func() { ended <- followed{sm, rules}.WatchLeases(ctx, receiver) }()
	node := func(kind lease.EventType, i int, address string) lease.Event {
		return lease.Event{Type: kind, Lease: lease.Lease{Subnet: mustNet(fmt.Sprintf("10.42.%d.0/24", i)),
			Attrs: lease.LeaseAttrs{PublicIP: ip.MustParseIP4(address)}}}
	}
	for _, c := range []struct {
		event lease.Event
		want  string
	}{
		{node(lease.EventAdded, 0, "192.0.2.1"), "{ 192.0.2.1 }"},
		{node(lease.EventAdded, 1, "192.0.2.2"), "{ 192.0.2.1, 192.0.2.2 }"},
		{node(lease.EventAdded, 1, "192.0.2.3"), "{ 192.0.2.1, 192.0.2.3 }"},
		{node(lease.EventAdded, 1, "192.0.2.3"), "{ 192.0.2.1, 192.0.2.3 }"}, // other data of it changed
		{node(lease.EventRemoved, 1, "192.0.2.3"), "{ 192.0.2.1 }"},
	} {
		sm.events <- c.event
		told := <-receiver
		if len(told) != 1 || len(told[0].Events) != 1 || told[0].Events[0].Lease.Subnet != c.event.Lease.Subnet {
			t.Errorf("flannel is told %v", told)
		}
		mu.Lock()
		last := scripts[len(scripts)-1]
		mu.Unlock()
		if !strings.Contains(last, "set nodes-4 { type ipv4_addr; elements = "+c.want+"; }") {
			t.Errorf("when flannel hears of it the rules are not %s:\n%s", c.want, last)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if _, open := <-receiver; open {
		t.Error("the receiver is not closed")
	}
	if n := len(scripts); n != 6 { // one failed, one was not needed
		t.Errorf("%d scripts: %q", n, slices.Compact(scripts))
	}
}
