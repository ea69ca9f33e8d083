package nodeaddr

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/tests/nstest"
)

func addrs(s ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range s {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func TestChoose(t *testing.T) {
	bridge := link{name: "docker0", index: 3, up: true, virtual: true, addrs: addrs("172.17.0.1")}
	eth0 := link{name: "eth0", index: 1, up: true, addrs: addrs("192.0.2.2", "192.0.2.9", "2001:db8::2")}
	eth1 := link{name: "eth1", index: 2, up: true, addrs: addrs("198.51.100.7")}
	for _, tc := range []struct {
		name    string
		m       machine
		nodeIPs []string
		iface   string
		ips     string
		wantIf  string
		input   string // Source of the problem.Input, or "precondition"
	}{
		{name: "default route", m: machine{links: []link{bridge, eth1, eth0}, routes: []route{{index: 1}}},
			ips: "192.0.2.2", wantIf: "eth0"},
		{name: "lowest metric wins", m: machine{links: []link{eth0, eth1}, routes: []route{{index: 1, priority: 600},
			{index: 2, priority: 100}}}, ips: "198.51.100.7", wantIf: "eth1"},
		{name: "the route's source address wins", m: machine{links: []link{eth0},
			routes: []route{{index: 1, src: netip.MustParseAddr("192.0.2.9")}}}, ips: "192.0.2.9", wantIf: "eth0"},
		{name: "IPv6 route alone makes IPv6 primary", m: machine{links: []link{eth0},
			routes: []route{{index: 1, v6: true}}}, ips: "2001:db8::2", wantIf: "eth0"},
		{name: "no default route skips virtual links", m: machine{links: []link{bridge, eth1}},
			ips: "198.51.100.7", wantIf: "eth1"},
		{name: "nothing", m: machine{links: []link{bridge, {name: "eth9", index: 9, addrs: addrs("192.0.2.77")}}},
			input: "precondition"},
		{name: "configured", m: machine{links: []link{eth0, eth1}, routes: []route{{index: 1}}},
			nodeIPs: []string{"198.51.100.7"}, ips: "198.51.100.7", wantIf: "eth1"},
		{name: "configured with another interface", m: machine{links: []link{eth0, eth1}},
			nodeIPs: []string{"198.51.100.7"}, iface: "eth0", ips: "198.51.100.7", wantIf: "eth0"},
		{name: "interface alone", m: machine{links: []link{eth0, eth1}, routes: []route{{index: 1}}}, iface: "eth1",
			ips: "198.51.100.7", wantIf: "eth1"},
		{name: "not an address", m: machine{links: []link{eth0}}, nodeIPs: []string{"nonsense"}, input: "--node-ip"},
		{name: "foreign address", m: machine{links: []link{eth0}}, nodeIPs: []string{"203.0.113.1"},
			input: "--node-ip"},
		{name: "two of a family", m: machine{links: []link{eth0}}, nodeIPs: []string{"192.0.2.2", "192.0.2.9"},
			input: "--node-ip"},
		{name: "unknown interface", m: machine{links: []link{eth0}}, iface: "eth7", input: "--flannel-iface"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := tc.m.choose(tc.nodeIPs, tc.iface)
			var in *problem.Input
			var pre *problem.Precondition
			switch {
			case tc.input == "precondition":
				if !errors.As(err, &pre) || pre.Fix == "" {
					t.Fatalf("err = %v, want a Precondition with a remedy", err)
				}
			case tc.input != "":
				if !errors.As(err, &in) || in.Source != tc.input || in.Want == "" {
					t.Fatalf("err = %v, want a problem.Input of %s", err, tc.input)
				}
			case err != nil:
				t.Fatal(err)
			default:
				if got := strings.Join(c.Strings(), " "); got != tc.ips || c.Iface != tc.wantIf || c.Reason == "" {
					t.Errorf("got %s on %s (%s), want %s on %s", got, c.Iface, c.Reason, tc.ips, tc.wantIf)
				}
			}
		})
	}
}

func TestScanReadsTheKernel(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	if _, err := Choose(nil, ""); err == nil {
		t.Fatal("Choose succeeded on a machine with nothing but a loopback")
	}
	for name, addr := range map[string]string{"up0": "192.0.2.5/24", "up1": "198.51.100.5/24"} {
		l := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "p"}
		if err := netlink.LinkAdd(l); err != nil {
			t.Fatal(err)
		}
		a, err := netlink.ParseAddr(addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.AddrAdd(l, a); err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(l); err != nil {
			t.Fatal(err)
		}
		if name == "up1" {
			if err := netlink.RouteAdd(&netlink.Route{LinkIndex: l.Index,
				Gw: net.ParseIP("198.51.100.1")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, err := Choose(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if c.Iface != "up1" || !slices.Equal(c.Strings(), []string{"198.51.100.5"}) {
		t.Errorf("Choose = %v on %s, want the interface of the default route", c.IPs, c.Iface)
	}
}
