package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flannel-io/flannel/pkg/ip"
	"github.com/flannel-io/flannel/pkg/lease"
	"github.com/flannel-io/flannel/pkg/subnet"
	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink"

	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/tests/nstest"
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
	deadline := time.After(2 * time.Minute)
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

// uplink makes the interface that leads to other nodes.
func uplink(t *testing.T) {
	t.Helper()
	up := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "up0", MTU: 1500}, PeerName: "peer0"}
	if err := netlink.LinkAdd(up); err != nil {
		t.Fatal(err)
	}
	peer, err := netlink.LinkByName("peer0")
	if err != nil {
		t.Fatal(err)
	}
	addr, err := netlink.ParseAddr("192.0.2.1/24")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrAdd(up, addr); err != nil {
		t.Fatal(err)
	}
	for _, l := range []netlink.Link{up, peer} {
		if err := netlink.LinkSetUp(l); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHostGWWithIptables runs the whole component against an API that has two
// nodes.
func TestHostGWWithIptables(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	uplink(t)
	if out, err := exec.Command("nft", "add table ip flannel-ipv4").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	patched := make(chan string, 16)
	node := func(name, ip, cidr, managed string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"annotations":{"flannel.alpha.coreos.com/public-ip":%q,`+
			`"flannel.alpha.coreos.com/backend-type":"host-gw","flannel.alpha.coreos.com/backend-data":"null",`+
			`"flannel.alpha.coreos.com/kube-subnet-manager":%q}},"spec":{"podCIDR":%q,"podCIDRs":[%q]}}`, name, ip,
			managed, cidr, cidr)
	}
	items := node("n1", "", "10.42.0.0/24", "") + "," + node("n2", "192.0.2.2", "10.42.1.0/24", "true")
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		q := r.URL.Query()
		switch {
		case r.Method == http.MethodPatch:
			body, _ := io.ReadAll(r.Body)
			patched <- r.URL.Path + " " + string(body)
			_, _ = fmt.Fprint(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"}}`)
		case q.Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity) // sends clients to plain lists
			_, _ = fmt.Fprint(w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case q.Get("watch") != "":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			list := items
			if strings.Contains(q.Get("fieldSelector"), "n1") {
				list = node("n1", "", "10.42.0.0/24", "")
			}
			_, _ = fmt.Fprintf(w,
				`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[%s]}`, list)
		}
	}))
	dir := t.TempDir()
	o := Options{
		KubeconfigPath: filepath.Join(dir, "kubeconfig"), NodeName: "n1", Backend: "host-gw",
		Iface: "up0", DataDir: dir,
		ClusterCIDR: "10.42.0.0/16", PacketFilter: netfilter.Iptables,
		NodeIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")},
	}
	conf := fmt.Sprintf(`{"kind":"Config","apiVersion":"v1","current-context":"c","clusters":[{"name":"c",`+
		`"cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c"}}]}`, api.URL)
	if err := os.WriteFile(o.KubeconfigPath, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, result := make(chan struct{}), make(chan error, 1)
	go func() { result <- New(o).Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-result:
		t.Fatalf("the network did not start: %v", err)
	case <-time.After(2 * time.Minute):
		t.Fatal("the network did not become ready")
	}
	if p := <-patched; !strings.HasPrefix(p, "/api/v1/nodes/n1/status ") || !strings.Contains(p, "192.0.2.1") {
		t.Errorf("the node was not told its address: %s", p)
	}
	if v, ok := os.LookupEnv("NODE_NAME"); ok {
		t.Errorf("NODE_NAME=%s was left in the environment", v)
	}
	eventually(t, "a route to the other node's pods", func() bool {
		out, err := exec.Command("ip", "route").Output()
		return err == nil && strings.Contains(string(out), "10.42.1.0/24 via 192.0.2.2 dev up0")
	})
	eventually(t, "masquerading and forwarding by iptables", func() bool {
		out, err := exec.Command("iptables-save").Output()
		return err == nil && strings.Contains(string(out),
			"-A POSTROUTING -m comment --comment \"flanneld masq\" -j FLANNEL-POSTRTG") &&
			strings.Contains(string(out), "-A FLANNEL-FWD -s 10.42.0.0/16")
	})
	if tables, err := netfilter.Tables(ctx); err != nil || slices.ContainsFunc(tables, IsTable) {
		t.Errorf("the rules of nftables mode are still there: %v, %v", tables, err)
	}
	list, err := os.ReadFile(conflistPath(dir))
	if err != nil || !strings.Contains(string(list), `"mtu": 1500`) ||
		!strings.Contains(string(list), `"backend": "iptables"`) {
		t.Errorf("conflist: %v\n%s", err, list)
	}
	cancel()
	if err := <-result; err != nil {
		t.Errorf("stopped with %v", err)
	}
}

// TestRulesBesideDocker checks that forwarded pod traffic survives a default
// of dropping, and that switching back to nftables removes flannel's chains.
func TestRulesBesideDocker(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	raw, err := renderNetConf("10.42.0.0/16", "vxlan", netfilter.Nftables)
	if err != nil {
		t.Fatal(err)
	}
	conf, err := subnet.ParseConfig(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	l := &lease.Lease{EnableIPv4: true, Subnet: mustNet("10.42.0.0/24")}
	save := func() string {
		out, err := exec.Command("iptables-save").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	policy := func(p string) {
		if out, err := exec.Command("iptables", "-P", "FORWARD", p).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	policy("DROP")
	ctx, cancel := context.WithCancel(t.Context())
	if err := setUpRules(ctx, netfilter.Nftables, conf, l); err != nil {
		t.Fatal(err)
	}
	eventually(t, "accept rules in iptables", func() bool {
		return strings.Contains(save(), "-A FLANNEL-FWD -d 10.42.0.0/16")
	})
	cancel()
	policy("ACCEPT")
	if err := setUpRules(t.Context(), netfilter.Nftables, conf, l); err != nil {
		t.Fatal(err)
	}
	if s := save(); strings.Contains(s, "FLANNEL") {
		t.Errorf("iptables rules that are not needed:\n%s", s)
	}
}

// TestVXLAN runs the network of a node on a machine of its own, restarts it,
// and deletes its device.
func TestVXLAN(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	uplink(t)
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
		case <-time.After(2 * time.Minute):
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
	if first.VxlanId != 1 || first.Port != 8472 || first.MTU != 1450 ||
		!first.SrcAddr.Equal(net.ParseIP("192.0.2.1")) || first.Flags&net.FlagUp == 0 {
		t.Errorf("device = %+v", first)
	}
	list, err := os.ReadFile(conflistPath(o.DataDir))
	if err != nil || !strings.Contains(string(list), `"subnet": "10.42.0.0/24"`) ||
		!strings.Contains(string(list), `"mtu": 1450`) {
		t.Errorf("conflist: %v\n%s", err, list)
	}
	if out, err := exec.Command("nft", "list", "table", "ip", "flannel-ipv4").CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "masquerade") {
		t.Errorf("no masquerading: %v\n%s", err, out)
	}

	attrs := lease.LeaseAttrs{BackendType: "vxlan", PublicIP: ip.MustParseIP4("192.0.2.2"),
		BackendData: json.RawMessage(`{"VNI":1,"VtepMAC":"12:c6:65:89:b4:e3"}`)}
	sm.events <- lease.Event{Type: lease.EventAdded,
		Lease: lease.Lease{EnableIPv4: true, Subnet: mustNet("10.42.1.0/24"), Attrs: attrs}}
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
		t.Errorf("a restart replaced the device: %d %s, was %d %s", again.Index, again.HardwareAddr,
			first.Index, first.HardwareAddr)
	}

	if err := netlink.LinkDel(again); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-result:
		if !errors.Is(err, errDeviceGone) {
			t.Errorf("after deleting the device: %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("deleting the device went unnoticed")
	}
	_, _ = start()
	if got := device().HardwareAddr.String(); got != first.HardwareAddr.String() {
		t.Errorf("the new device has address %s, other nodes know %s", got, first.HardwareAddr)
	}
}
