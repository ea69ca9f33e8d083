package network

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flannel-io/flannel/pkg/ip"
	"github.com/flannel-io/flannel/pkg/lease"
	"github.com/flannel-io/flannel/pkg/subnet"
	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink"

	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/process"
)

// asProcess makes this test program be the network of a node and nothing else.
const asProcess = "A4S_TEST_NETWORK_PROCESS"

// What the process says, a line each. It takes a line for a lease of another node.
const (
	saysReady = "ready"
	saysGone  = "device gone"
)

// TestNetworkProcess is the process of TestLinkChangesAreLost.
func TestNetworkProcess(t *testing.T) {
	dir := os.Getenv(asProcess)
	if dir == "" {
		t.Skip("only another test starts it")
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
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			attrs := lease.LeaseAttrs{BackendType: "vxlan", PublicIP: ip.MustParseIP4("192.0.2.2"),
				BackendData: json.RawMessage(`{"VNI":1,"VtepMAC":"12:c6:65:89:b4:e3"}`)}
			sm.events <- lease.Event{Type: lease.EventAdded,
				Lease: lease.Lease{EnableIPv4: true, Subnet: mustNet(in.Text()), Attrs: attrs}}
		}
	}()
	o := Options{
		Backend: "vxlan", Iface: "up0", DataDir: dir,
		NodeIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Log: logrus.NewEntry(logrus.StandardLogger()),
	}
	err = o.serve(t.Context(), func() { fmt.Println(saysReady) }, sm, netfilter.Nftables,
		func(ctx context.Context) error { <-ctx.Done(); return nil })
	if !errors.Is(err, errDeviceGone) {
		t.Fatalf("the network ended with %v", err)
	}
	fmt.Println(saysGone)
}

// TestLinkChangesAreLost lets the kernel drop what it reports links, as it does
// when a process does not get to run for a while: the network goes on, and still
// notices that its device is deleted.
func TestLinkChangesAreLost(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	uplink(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestNetworkProcess$", "-test.count=1")
	cmd.Env = append(os.Environ(), asProcess+"="+t.TempDir())
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	wait, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	// What it does not say in time it never says.
	patience := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // it may have ended
	defer patience.Stop()
	said := bufio.NewScanner(stdout)
	says := func(want string) {
		t.Helper()
		for said.Scan() {
			if strings.Contains(said.Text(), want) {
				return
			}
		}
		t.Fatalf("the process of the network ended before it said %q: %v", want, wait())
	}
	says(saysReady)

	signal := func(s syscall.Signal, state string) {
		t.Helper()
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		eventually(t, "state "+state+" of the process", func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
			if err != nil {
				t.Fatal(err)
			}
			_, after, _ := strings.Cut(string(stat), ") ")
			return strings.HasPrefix(after, "T") == (state == "T")
		})
	}
	signal(syscall.SIGSTOP, "T")
	for i := range 150 {
		link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("link%d", i)},
			PeerName: fmt.Sprintf("peer%d", i+1)}
		if err := netlink.LinkAdd(link); err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkDel(link); err != nil {
			t.Fatal(err)
		}
	}
	if !netlinkDrops(t) {
		t.Fatal("the kernel has lost nothing: this tests nothing")
	}
	signal(syscall.SIGCONT, "running")

	if _, err := fmt.Fprintln(stdin, "10.42.1.0/24"); err != nil {
		t.Fatalf("the process of the network is gone: %v", errors.Join(err, wait()))
	}
	device, err := netlink.LinkByName(VXLANName)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a route to the other node's pods", func() bool {
		routes, err := netlink.RouteList(device, netlink.FAMILY_V4)
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
	if err := netlink.LinkDel(device); err != nil {
		t.Fatal(err)
	}
	says(saysGone)
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// netlinkDrops reports whether the kernel could not deliver a message to a netlink
// socket of this network namespace.
func netlinkDrops(t *testing.T) bool {
	t.Helper()
	table, err := os.ReadFile("/proc/net/netlink")
	if err != nil {
		t.Fatal(err)
	}
	const drops = 8 // the column
	for i, line := range strings.Split(strings.TrimSpace(string(table)), "\n") {
		if fields := strings.Fields(line); i > 0 && len(fields) > drops && fields[drops] != "0" {
			return true
		}
	}
	return false
}
