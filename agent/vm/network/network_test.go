package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/agent/vm/qemu"
	"github.com/a4s-io/a4s/embedded/payload"
	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/vmlab"
)

const conflist = `{"cniVersion":"1.0.0","name":"test","plugins":[
	{"type":"bridge","bridge":"br0","isGateway":true,"isDefaultGateway":true,"hairpinMode":true,"mtu":1400,
	 "ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.88.0.0/24"}],[{"subnet":"fd00:88::/64"}]]}},
	{"type":"portmap","capabilities":{"portMappings":true},"backend":"nftables"}]}`

// node is a Manager with the node's real plugins.
type node struct {
	*Manager
	ipam string
}

func newNode(t *testing.T) node {
	t.Helper()
	dir := t.TempDir()
	carried, err := payload.Extract(t.Context(), filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	n := node{ipam: filepath.Join(dir, "ipam")}
	o := Options{Dir: filepath.Join(dir, "network"), ConfDir: filepath.Join(dir, "net.d"),
		BinDirs: []string{carried.CNIBinDir}, CacheDir: filepath.Join(dir, "cni")}
	n.Manager = New(o)
	if err := n.Status(t.Context()); err == nil {
		t.Error("ready without a configuration")
	}
	if err := os.MkdirAll(o.ConfDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.ConfDir, "10-test.conflist"), fmt.Appendf(nil, conflist, n.ipam),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ids, err := n.List()
		for _, id := range ids {
			err = errors.Join(err, n.Teardown(context.Background(), id))
		}
		if err != nil {
			t.Error(err)
		}
	})
	return n
}

// reserved returns the addresses that the address manager gave away.
func (n node) reserved(t *testing.T) (ips []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(n.ipam, "test", "[0-9a-f]*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		ips = append(ips, filepath.Base(f))
	}
	return ips
}

func (n node) wantNothingLeft(t *testing.T) {
	t.Helper()
	if ips := n.reserved(t); len(ips) != 0 {
		t.Errorf("addresses are still reserved: %v", ips)
	}
	for _, dir := range []string{n.opts.Dir, filepath.Join(n.opts.Dir, namespaces),
		filepath.Join(n.opts.CacheDir, "results")} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != namespaces {
				t.Errorf("%s is left in %s", e.Name(), dir)
			}
		}
	}
	// The kernel takes links away some time after their namespace.
	hosts.Until(t, 30*time.Second, "no link is left", func(context.Context) error {
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, l := range links {
			if l.Type() == "veth" {
				return fmt.Errorf("%s is", l.Attrs().Name)
			}
		}
		return nil
	})
}

var web = Pod{
	ID: "0123456789abcdef", Namespace: "default.t1", Name: "web", UID: "u1",
	PortMappings: []PortMapping{{HostPort: 18080, ContainerPort: 8080, Protocol: "TCP"}, {ContainerPort: 9}},
}

func TestAttachment(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	n := newNode(t)
	host := web
	host.HostNetwork = true
	if _, err := n.Setup(t.Context(), host); !errors.Is(err, ErrHostNetwork) {
		t.Errorf("hostNetwork: %v", err)
	}
	a, err := n.Setup(t.Context(), web)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", a)
	if a.ID != web.ID || a.MTU != 1400 || len(a.MAC) != 17 || len(a.Addresses) != 2 ||
		a.Addresses[0] != netip.MustParsePrefix("10.88.0.2/24") ||
		a.Addresses[1] != netip.MustParsePrefix("fd00:88::2/64") {
		t.Errorf("attachment %+v", a)
	}
	want := map[Route]bool{
		{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("10.88.0.1")}: true,
		{netip.MustParsePrefix("::/0"), netip.MustParseAddr("fd00:88::1")}:     true,
	}
	for _, r := range a.Routes {
		if !want[r] {
			t.Errorf("route %+v", r)
		}
	}
	if len(a.Routes) != len(want) {
		t.Errorf("%d routes", len(a.Routes))
	}
	// Who keeps tenants apart finds the pod where it finds those of containers.
	tenants := localpods.New(localpods.Options{Results: filepath.Join(n.opts.CacheDir, "results")})
	if tenant, ok := tenants.Tenant(a.Addresses[0].Addr()); tenant != "t1" || !ok {
		t.Errorf("tenant of %s: %q, %v", a.Addresses[0], tenant, ok)
	}

	// A later process knows as much.
	later := node{New(n.opts), n.ipam}
	again, err := later.Get(web.ID)
	if err != nil || again.MAC != a.MAC || len(again.Routes) != len(a.Routes) {
		t.Errorf("found again: %+v, %v", again, err)
	}
	if same, err := later.Setup(t.Context(), web); err != nil || same.MAC != a.MAC {
		t.Errorf("set up again: %+v, %v", same, err)
	}
	if err := later.Check(t.Context(), web.ID); err != nil {
		t.Errorf("check: %v", err)
	}
	begin := time.Now()
	tap, err := later.Tap(web.ID)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("tap after %s", time.Since(begin))
	if second, err := later.Tap(web.ID); err == nil {
		_ = second.Close()
		t.Error("a tap that is in use was given away again")
	}
	if err := tap.Close(); err != nil {
		t.Fatal(err)
	}
	if tap, err = later.Tap(web.ID); err != nil {
		t.Fatalf("the tap of a machine that ended: %v", err)
	}
	if err := tap.Close(); err != nil {
		t.Fatal(err)
	}
	if err := later.Check(t.Context(), web.ID); err != nil {
		t.Errorf("check with a tap: %v", err)
	}
	for range 2 { // the second time there is nothing to do
		if err := later.Teardown(t.Context(), web.ID); err != nil {
			t.Fatal(err)
		}
	}
	n.wantNothingLeft(t)
	if _, err := later.Get(web.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("after the teardown: %v", err)
	}
	if err := n.Teardown(t.Context(), "../x"); err == nil {
		t.Error("a path was taken for an id")
	}
}

func TestConfiguration(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  string // network and types of plugins, or the error
	}{
		"none": {nil, "no CNI configuration"},
		"first by name": {map[string]string{"20.conflist": fmt.Sprintf(conflist, "/x"),
			"10.conflist": `{"cniVersion":"1.0.0","name":"first","plugins":[{"type":"a"},{"type":"b"}]}`},
			"first a b"},
		"one plugin": {map[string]string{"10.conf": `{"cniVersion":"0.4.0","name":"one","type":"a","mtu":1400}`},
			"one a"},
		"broken": {map[string]string{"10.conflist": `{`}, "10.conflist"},
		"no plugins": {map[string]string{"10.conflist": `{"cniVersion":"1.0.0","name":"x","plugins":[]}`},
			"plugins"},
	} {
		dir := t.TempDir()
		for file, content := range tc.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		list, err := New(Options{ConfDir: dir}).load()
		if err != nil {
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		got := list.Name
		for _, p := range list.Plugins {
			got += " " + p.Network.Type
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestWhatWasCutShort removes what processes left that were killed.
func TestWhatWasCutShort(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	n := newNode(t)
	for _, tc := range []struct {
		name string
		at   func(t *testing.T)
	}{
		{"before the namespace", func(t *testing.T) {
			list, err := n.load()
			if err != nil {
				t.Fatal(err)
			}
			if err := n.write(record{Pod: web, Config: list.Bytes}); err != nil {
				t.Fatal(err)
			}
		}},
		{"before it was pinned", func(t *testing.T) {
			if err := os.WriteFile(n.namespace(web.ID), nil, 0o400); err != nil {
				t.Fatal(err)
			}
		}},
		{"before it was recorded as whole", func(t *testing.T) {
			a, err := n.Setup(t.Context(), web)
			if err != nil {
				t.Fatal(err)
			}
			rec, err := n.read(a.ID)
			if err != nil {
				t.Fatal(err)
			}
			rec.Attachment = nil
			if err := n.write(rec); err != nil {
				t.Fatal(err)
			}
		}},
		{"by a reboot", func(t *testing.T) {
			if _, err := n.Setup(t.Context(), web); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Remove(n.recordPath(web.ID)), removeNamespace(n.namespace(web.ID))); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := os.MkdirAll(filepath.Join(n.opts.Dir, namespaces), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(n.opts.CacheDir, "results"), 0o755); err != nil {
				t.Fatal(err)
			}
			tc.at(t)
			if _, err := n.Get(web.ID); !errors.Is(err, ErrUnknown) {
				t.Errorf("taken for whole: %v", err)
			}
			ids, err := n.List()
			if err != nil || len(ids) != 1 || ids[0] != web.ID {
				t.Fatalf("List() = %v, %v", ids, err)
			}
			if err := n.Teardown(t.Context(), web.ID); err != nil {
				t.Fatal(err)
			}
			n.wantNothingLeft(t)
		})
	}
	t.Run("by a plugin that fails", func(t *testing.T) {
		o := n.opts
		o.ConfDir = t.TempDir()
		config := strings.Replace(fmt.Sprintf(conflist, n.ipam), `"type":"portmap"`, `"type":"moody"`, 1)
		if err := os.WriteFile(filepath.Join(o.ConfDir, "10.conflist"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		bad := New(o)
		if err := bad.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "moody") {
			t.Errorf("status without a plugin: %v", err)
		}
		plugins := t.TempDir()
		if err := os.WriteFile(filepath.Join(plugins, "moody"), []byte("#!/bin/sh\n[ $CNI_COMMAND = DEL ]\n"),
			0o700); err != nil {
			t.Fatal(err)
		}
		o.BinDirs = append([]string{plugins}, o.BinDirs...)
		if _, err := New(o).Setup(t.Context(), web); err == nil || !strings.Contains(err.Error(), "default.t1/web") {
			t.Errorf("setup: %v", err)
		}
		n.wantNothingLeft(t)
	})
}

// TestGuestIsThePod has a guest on the network through its tap, is it reached
// and does it reach others.
func TestGuestIsThePod(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	guest := vmlab.New(t)
	n := newNode(t)
	a, err := n.Setup(t.Context(), web)
	if err != nil {
		t.Fatal(err)
	}
	tap, err := n.Tap(web.ID)
	if err != nil {
		t.Fatal(err)
	}
	c := qemu.Config{
		Dir: t.TempDir(), Accelerator: qemu.TCG, MemoryMB: 128, CPUs: 1, Slots: 1,
		Kernel: guest.Kernel, Initrd: guest.Initrd, Cmdline: vmlab.Cmdline(),
		NICs:  []qemu.NIC{{MAC: a.MAC, MTU: a.MTU, Tap: tap}},
		Ports: []qemu.Port{{Name: vmlab.Port, Socket: "lab.sock"}},
	}
	m, err := qemu.Start(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Kill(), m.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := tap.Close(); err != nil { // QEMU has it
		t.Fatal(err)
	}
	conn, err := qemu.DialPort(t.Context(), c.Dir, "lab.sock")
	if err != nil {
		t.Fatal(err)
	}
	sh := vmlab.Open(t, conn)
	if mtu := sh.Run("cat /sys/class/net/eth0/mtu"); mtu != "1400" {
		t.Errorf("MTU %s", mtu)
	}
	sh.Run("ip link set lo up; ip link set eth0 up")
	for _, addr := range a.Addresses {
		sh.Run("ip addr add " + addr.String() + " dev eth0")
	}
	for _, r := range a.Routes {
		family := map[bool]string{true: "-4", false: "-6"}[r.Destination.Addr().Is4()]
		sh.Run(fmt.Sprintf("ip %s route add %s via %s dev eth0", family, r.Destination, r.Gateway))
	}
	sh.Run("ping -c 1 -W 10 10.88.0.1")
	sh.Run("(while :; do head -c 300000 /dev/zero | nc -l -p 8080; done) >/dev/null 2>&1 &")
	for _, address := range []string{"10.88.0.2:8080", "10.88.0.1:18080"} { // the pod, and the port of the node
		if got := receive(t, address); got != 300000 {
			t.Errorf("%s sent %d bytes", address, got)
		}
	}
	if err := n.Check(t.Context(), web.ID); err != nil {
		t.Errorf("check: %v", err)
	}

	// Root in the guest takes addresses that are not its own.
	// The address can be used when the guest has asked whether another one
	// has it.
	sh.Run("for i in $(seq 20); do ping -c 1 -W 1 fd00:88::1 && break; done")
	heard := echoes(t)
	sh.Run("echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad; ip addr add 10.88.0.77/24 dev eth0; " +
		"ip -6 addr add fd00:88::77/64 dev eth0")
	for _, line := range []string{"ping -c 2 -W 2 -I 10.88.0.77 10.88.0.1",
		"ping -c 2 -W 2 -I fd00:88::77 fd00:88::1"} {
		if out, status := sh.Try(line); status != "1" ||
			!strings.Contains(out, "2 packets transmitted, 0 packets received") {
			t.Errorf("%s: status %s\n%s", line, status, out)
		}
	}
	if conn, err := net.DialTimeout("tcp", "10.88.0.77:8080", 2*time.Second); err == nil {
		_ = conn.Close() // it should not be there
		t.Error("the guest is reached at an address that it took")
	}
	sh.Run("ip addr del 10.88.0.77/24 dev eth0; ip link set eth0 down; ip link set eth0 address 02:00:00:00:00:77; " +
		"ip link set eth0 up; ip route add default via 10.88.0.1")
	if out, status := sh.Try("ping -c 2 -W 2 10.88.0.1"); status == "0" {
		t.Errorf("the guest is heard with a hardware address that it took: %s", out)
	}
	if now := echoes(t); now != heard {
		t.Errorf("%d echo requests from other addresses came through", now-heard)
	}
	sh.Run("ip link set eth0 down; ip link set eth0 address " + a.MAC + "; ip link set eth0 up")
	sh.Run("ip route add default via 10.88.0.1; ping -c 1 -W 10 10.88.0.1")
	if now := echoes(t); now == heard {
		t.Error("echo requests are not counted")
	}
}

// echoes returns how many echo requests this namespace received.
func echoes(t *testing.T) (n int) {
	t.Helper()
	four, err := os.ReadFile("/proc/thread-self/net/snmp")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(four)) {
		f := strings.Fields(line)
		if f[0] != "Icmp:" {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		if n, err = strconv.Atoi(f[slices.Index(names, "InEchos")]); err != nil {
			t.Fatal(err)
		}
	}
	six, err := os.ReadFile("/proc/thread-self/net/snmp6")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(six)) {
		if f := strings.Fields(line); f[0] == "Icmp6InEchos" {
			more, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			n += more
		}
	}
	return n
}

// receive returns how many bytes a server sends.
func receive(t *testing.T, address string) int64 {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			if err := conn.SetDeadline(deadline); err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, conn)
			_ = conn.Close() // it was only read
			if err != nil {
				t.Errorf("%s: %v", address, err)
			}
			return n
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not reached: %v", address, err)
		}
	}
}
