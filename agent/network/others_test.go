package network

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/flannel-io/flannel/pkg/lease"
	"github.com/flannel-io/flannel/pkg/subnet"
	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/tests/nstest"
)

// TestOtherPartitionsAreNotMasqueraded: in the kernel, what a pod sends to pods of other
// partitions has its own address there, as soon as the node knows their range.
func TestOtherPartitionsAreNotMasqueraded(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	nstest.Shell(t, `mount -t tmpfs none /run
		echo 1 > /proc/sys/net/ipv4/ip_forward
		ip netns add pod
		ip link add vpod type veth peer name eth0 netns pod
		ip addr add 10.42.0.1/24 dev vpod
		ip link set vpod up
		ip -n pod addr add 10.42.0.5/24 dev eth0
		ip -n pod link set eth0 up
		ip -n pod route add default via 10.42.0.1
		ip netns add far
		ip link add vfar type veth peer name eth0 netns far
		ip addr add 192.0.2.1/24 dev vfar
		ip link set vfar up
		ip -n far addr add 192.0.2.2/24 dev eth0
		ip -n far addr add 10.142.0.5/32 dev eth0
		ip -n far addr add 10.152.0.5/32 dev eth0
		ip -n far link set eth0 up
		ip -n far route add 10.42.0.0/16 via 192.0.2.1
		ip route add 10.142.0.0/16 via 192.0.2.2
		ip route add 10.152.0.0/16 via 192.0.2.2`)
	log := logrus.New()
	log.SetOutput(io.Discard)
	for _, mode := range []netfilter.Mode{netfilter.Nftables, netfilter.Iptables} {
		t.Run(string(mode), func(t *testing.T) {
			support := netfilter.Probe(t.Context())
			missing := map[netfilter.Mode]error{
				netfilter.Nftables: support.Nftables, netfilter.Iptables: support.Iptables}
			if missing[mode] != nil {
				t.Skip("this machine has no " + mode)
			}
			conf := &subnet.Config{Network: mustNet("10.42.0.0/16"), EnableIPv4: true}
			if err := setUpRules(t.Context(), mode, conf, &lease.Lease{Subnet: mustNet("10.42.0.0/24")}); err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			changed := make(chan struct{})
			var ranges []netip.Prefix
			set := func(texts ...string) {
				mu.Lock()
				defer mu.Unlock()
				ranges = nil
				for _, text := range texts {
					ranges = append(ranges, netip.MustParsePrefix(text))
				}
				close(changed)
				changed = make(chan struct{})
			}
			set("10.42.0.0/16", "10.142.0.0/16", "10.142.0.0/16", "fd00::/56")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			newOthers(netip.MustParsePrefix("10.42.0.0/16"), mode, nil, logrus.NewEntry(log)).
				follow(ctx, func() ([]netip.Prefix, <-chan struct{}) {
					mu.Lock()
					defer mu.Unlock()
					return ranges, changed
				})
			port := 7000
			seen := func(address string) string {
				port++ // a connection is translated as its first packet was
				conn := datagrams(t, "far", fmt.Sprintf("%s:%d", address, port), false)
				out, err := exec.Command("ip", "netns", "exec", "pod", "bash", "-c",
					fmt.Sprintf("echo x > /dev/udp/%s/%d", address, port)).CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				_, from, err := conn.ReadFrom(make([]byte, 8))
				if err != nil {
					t.Fatal(err)
				}
				return strings.Split(from.String(), ":")[0]
			}
			sees := func(address, want string) {
				t.Helper()
				eventually(t, address+" sees "+want, func() bool { return seen(address) == want })
			}
			if got := seen("10.142.0.5"); got != "10.42.0.5" {
				t.Errorf("a pod of another partition sees %s", got)
			}
			if got := seen("10.152.0.5"); got != "192.0.2.1" {
				t.Errorf("the world outside sees %s", got)
			}
			set("10.142.0.0/16", "10.152.0.0/16")
			sees("10.152.0.5", "10.42.0.5")
			sees("10.142.0.5", "10.42.0.5")
			set("10.152.0.0/16")
			sees("10.142.0.5", "192.0.2.1")
			sees("10.152.0.5", "10.42.0.5")
		})
	}
}

// TestTunnelOfOtherPartitions: their pods may use the port among pods, when the rules are written.
func TestTunnelOfOtherPartitions(t *testing.T) {
	var written []string
	rules := &tunnel{clusters: []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16")}, nodes: map[string]netip.Addr{},
		apply: func(_ context.Context, script string) error {
			written = append(written, script)
			return nil
		}}
	both := []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16"), netip.MustParsePrefix("10.142.0.0/16")}
	if err := rules.spread(t.Context(), both); err != nil || len(written) != 0 {
		t.Fatalf("before flannel told of nodes those of the run before count: %q %v", written, err)
	}
	rules.hear(nil)
	for range 2 {
		if err := rules.spread(t.Context(), both[:1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := rules.spread(t.Context(), both); err != nil {
		t.Fatal(err)
	}
	if len(written) != 2 || strings.Contains(written[0], "10.142") ||
		!strings.Contains(written[1], "elements = { 10.42.0.0/16, 10.142.0.0/16 }") {
		t.Errorf("written was %q", written)
	}
}
