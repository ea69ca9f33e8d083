package network

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flannel-io/flannel/pkg/ip"
	"github.com/flannel-io/flannel/pkg/lease"
	"github.com/flannel-io/flannel/pkg/subnet"
	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink"

	"github.com/a4s-io/a4s/agent/netfilter"
	"github.com/a4s-io/a4s/internal/nstest"
)

// leases is a subnet manager without an API server: a lease for this node and
// a channel of other nodes' leases.
type leases struct {
	subnet.Manager
	conf   *subnet.Config
	events chan lease.Event

	mu  sync.Mutex
	mac string
}

func (m *leases) GetNetworkConfig(context.Context) (*subnet.Config, error) { return m.conf, nil }

func (m *leases) GetStoredMacAddresses(context.Context) (string, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mac, ""
}

func (m *leases) AcquireLease(_ context.Context, attrs *lease.LeaseAttrs) (*lease.Lease, error) {
	var data struct{ VtepMAC string }
	if err := json.Unmarshal(attrs.BackendData, &data); err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.mac = data.VtepMAC
	m.mu.Unlock()
	return &lease.Lease{EnableIPv4: true, Subnet: mustNet("10.42.0.0/24"), Attrs: *attrs}, nil
}

func (m *leases) WatchLeases(ctx context.Context, out chan []lease.LeaseWatchResult) error {
	defer close(out)
	for {
		select {
		case e := <-m.events:
			out <- []lease.LeaseWatchResult{{Events: []lease.Event{e}}}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func mustNet(s string) ip.IP4Net {
	_, n, err := net.ParseCIDR(s)
	if err != nil {
		panic(err)
	}
	return ip.FromIPNet(n)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("%s did not happen", what)
		case <-tick.C:
		}
	}
}

// TestVXLAN runs the network of a node on a machine of its own, restarts it,
// and deletes its device.
func TestVXLAN(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	up := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "up0", MTU: 1500}, PeerName: "peer0"}
	if err := netlink.LinkAdd(up); err != nil {
		t.Fatal(err)
	}
	addr, err := netlink.ParseAddr("192.0.2.1/24")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrAdd(up, addr); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(up); err != nil {
		t.Fatal(err)
	}
	raw, err := renderNetConf("10.42.0.0/16", "vxlan", netfilter.Nftables)
	if err != nil {
		t.Fatal(err)
	}
	conf, err := subnet.ParseConfig(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	sm := &leases{conf: conf, events: make(chan lease.Event, 1)}
	o := Options{
		Backend: "vxlan", Iface: "up0", DataDir: t.TempDir(),
		NodeIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Log: logrus.NewEntry(logrus.StandardLogger()),
	}
	start := func() (context.CancelFunc, <-chan error) {
		ctx, cancel := context.WithCancel(t.Context())
		ready, result := make(chan struct{}), make(chan error, 1)
		go func() {
			result <- o.serve(ctx, func() { close(ready) }, sm, netfilter.Nftables,
				func(ctx context.Context) error { <-ctx.Done(); return nil })
		}()
		select {
		case <-ready:
		case err := <-result:
			t.Fatalf("the network did not start: %v", err)
		case <-time.After(30 * time.Second):
			t.Fatal("the network did not become ready")
		}
		return cancel, result
	}
	device := func() *netlink.Vxlan {
		t.Helper()
		l, err := netlink.LinkByName(VXLANName)
		if err != nil {
			t.Fatal(err)
		}
		return l.(*netlink.Vxlan)
	}

	cancel, result := start()
	first := device()
	if first.VxlanId != 1 || first.Port != 8472 || first.MTU != 1450 || !first.SrcAddr.Equal(net.ParseIP("192.0.2.1")) || first.Flags&net.FlagUp == 0 {
		t.Errorf("device = %+v", first)
	}
	list, err := os.ReadFile(conflistPath(o.DataDir))
	if err != nil || !strings.Contains(string(list), `"subnet": "10.42.0.0/24"`) || !strings.Contains(string(list), `"mtu": 1450`) {
		t.Errorf("conflist: %v\n%s", err, list)
	}
	if out, err := exec.Command("nft", "list", "table", "ip", "flannel-ipv4").CombinedOutput(); err != nil || !strings.Contains(string(out), "masquerade") {
		t.Errorf("no masquerading: %v\n%s", err, out)
	}

	attrs := lease.LeaseAttrs{BackendType: "vxlan", PublicIP: ip.MustParseIP4("192.0.2.2"), BackendData: json.RawMessage(`{"VNI":1,"VtepMAC":"12:c6:65:89:b4:e3"}`)}
	sm.events <- lease.Event{Type: lease.EventAdded, Lease: lease.Lease{EnableIPv4: true, Subnet: mustNet("10.42.1.0/24"), Attrs: attrs}}
	eventually(t, "a route to the other node's pods", func() bool {
		routes, err := netlink.RouteList(first, netlink.FAMILY_V4)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range routes {
			if r.Dst != nil && r.Dst.String() == "10.42.1.0/24" {
				return true
			}
		}
		return false
	})

	cancel()
	if err := <-result; err != nil {
		t.Fatalf("stopped with %v", err)
	}
	_, result = start()
	again := device()
	if again.Index != first.Index || again.HardwareAddr.String() != first.HardwareAddr.String() {
		t.Errorf("a restart replaced the device: %d %s, was %d %s", again.Index, again.HardwareAddr, first.Index, first.HardwareAddr)
	}

	if err := netlink.LinkDel(again); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-result:
		if !errors.Is(err, errDeviceGone) {
			t.Errorf("after deleting the device: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("deleting the device went unnoticed")
	}
	_, _ = start()
	if got := device().HardwareAddr.String(); got != first.HardwareAddr.String() {
		t.Errorf("the new device has address %s, other nodes know %s", got, first.HardwareAddr)
	}
}
