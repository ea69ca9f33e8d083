package dns

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/tests/process"
)

// roleVariable makes a child of the test binary play a part in a network
// namespace of its own, which ends with the child.
const roleVariable = "A4S_DNS_TEST_ROLE"

// kubeProxy are rules with the hooks, the priorities and the verdicts of
// kube-proxy's nftables mode for a service without endpoints at the address.
const kubeProxy = `
table ip kube-proxy-like {
	chain nat-prerouting { type nat hook prerouting priority dstnat; ip daddr 10.43.0.10 dnat to 203.0.113.1; }
	chain nat-output { type nat hook output priority -100; ip daddr 10.43.0.10 dnat to 203.0.113.1; }
	chain nat-postrouting { type nat hook postrouting priority srcnat; ip saddr 10.42.0.0/16 masquerade; }
	chain filter-input { type filter hook input priority filter; ct state new ip daddr 10.43.0.10 reject; }
	chain filter-output { type filter hook output priority filter; ct state new ip daddr 10.43.0.0/16 drop; }
}`

// TestNode runs the server on its link, next to kube-proxy's rules, and asks it
// from the node and from a pod.
func TestNode(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes network namespaces")
	}
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("needs nft: ", err)
	}
	for _, backend := range []string{"nft", "iptables"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			cmd := child(t, "TestRoleNode", backend)
			if out, err := process.CombinedOutput(cmd); err != nil {
				t.Fatalf("in the namespace: %v\n%s", err, out)
			}
		})
	}
}

// child is this binary, about to run one test in a new network namespace.
func child(t *testing.T, test, role string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	return cmd
}

// TestRoleNode is the body of TestNode.
func TestRoleNode(t *testing.T) {
	role := os.Getenv(roleVariable)
	if role != "nft" && role != "iptables" {
		t.Skip("runs as a child of TestNode")
	}
	ctx := context.Background()
	up(t, "lo")

	h := newHarness(t, nil, cluster()...)
	h.Listen = netip.AddrPort{}
	var seen sources
	h.newStore = func(c kubernetes.Interface, table *sourceTable) (clusterStore, error) {
		s, err := newInformerStore(c, table)
		seen.clusterStore = s
		return &seen, err
	}
	if role == "iptables" {
		h.prepare = func(_ context.Context, addr netip.Addr, n *noTrack) error {
			if err := ensureLink(addr); err != nil {
				return err
			}
			return n.ensureIPTables()
		}
	}
	nft := exec.Command("nft", "-f", "-")
	nft.Stdin = strings.NewReader(kubeProxy)
	if out, err := nft.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	}
	h.start()
	h.awaitReady()
	if h.addr != "10.43.0.10:53" {
		t.Fatalf("it listens on %s", h.addr)
	}
	for range 2 { // preparing again changes nothing
		for _, network := range []string{"udp", "tcp"} {
			if err := askNode(network); err != nil {
				t.Errorf("from the node by %s: %v", network, err)
			}
		}
		if err := h.prepare(ctx, h.ClusterDNS, newNoTrack(h.ClusterDNS, h.Log)); err != nil {
			t.Fatal(err)
		}
	}
	pod := startPod(t)
	for _, network := range []string{"udp", "tcp"} {
		if answer := pod(network); answer != "ok" {
			t.Errorf("from the pod by %s: %s", network, answer)
		}
		if got := seen.last(); got != netip.MustParseAddr("10.42.0.5") {
			t.Errorf("the pod's %s query came from %s", network, got)
		}
	}
	// Sooner than the rules are looked at.
	for _, gone := range []func(netlink.Link) error{netlink.LinkDel, netlink.LinkSetDown} {
		if err := gone(mustLink(t, LinkName)); err != nil {
			t.Fatal(err)
		}
		deadline, err := time.Now().Add(rulesEvery/2), errors.New("not asked")
		for err != nil && time.Now().Before(deadline) {
			err = askNode("udp")
		}
		if err != nil {
			t.Fatalf("the link does not come back: %v", err)
		}
	}

	h.stop()
	for range 2 { // the second time there is nothing left to remove
		if err := removeAll(ctx); err != nil {
			t.Fatalf("removing what there is: %v", err)
		}
	}
	if _, err := netlink.LinkByName(LinkName); !isNoLink(err) {
		t.Errorf("the link that was removed: %v", err)
	}
	for _, list := range []string{"nft list ruleset", "iptables-save -t raw"} {
		out, err := exec.Command("sh", "-c", list).Output()
		if err != nil {
			t.Fatalf("%s: %v", list, err)
		}
		if strings.Contains(string(out), tableName) || strings.Contains(string(out), chainName) {
			t.Errorf("%s, after the rules were removed:\n%s", list, out)
		}
	}

	// Without the rules the very same queries fail, so the rules are what
	// made them succeed.
	h.prepare = func(_ context.Context, addr netip.Addr, _ *noTrack) error { return ensureLink(addr) }
	h.start()
	h.awaitReady()
	if err := askNode("udp"); err == nil {
		t.Error("the node's query got past kube-proxy's rules without ours")
	}
	if answer := pod("udp"); answer == "ok" {
		t.Error("the pod's query got past kube-proxy's rules without ours")
	}
	h.stop()
}

func TestLinkKeepsOneAddress(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a network namespace")
	}
	if os.Getenv(roleVariable) != "link" {
		if out, err := process.CombinedOutput(child(t, "TestLinkKeepsOneAddress", "link")); err != nil {
			t.Fatalf("in the namespace: %v\n%s", err, out)
		}
		return
	}
	for _, text := range []string{"10.43.0.10", "10.44.0.10", "10.44.0.10", "fd00:43::a"} {
		addr := netip.MustParseAddr(text)
		if err := ensureLink(addr); err != nil {
			t.Fatal(err)
		}
		link, err := netlink.LinkByName(LinkName)
		if err != nil {
			t.Fatal(err)
		}
		have, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			t.Fatal(err)
		}
		var global []string
		for _, a := range have {
			if !a.IP.IsLinkLocalUnicast() {
				global = append(global, a.IPNet.String())
			}
		}
		if want := netip.PrefixFrom(addr, addr.BitLen()).String(); len(global) != 1 || global[0] != want {
			t.Errorf("addresses of the link: %v, want %s", global, want)
		}
	}
	// Those of other servers on this node stay.
	a, b := netip.MustParseAddr("10.43.0.10"), netip.MustParseAddr("10.44.0.10")
	if err := errors.Join(ensureLink(a, b), ensureLink(b, a), ensureLink(a, b)); err != nil {
		t.Fatal(err)
	}
	have, err := netlink.AddrList(mustLink(t, LinkName), netlink.FAMILY_V4)
	if err != nil || len(have) != 2 {
		t.Errorf("addresses of two servers: %v %v", have, err)
	}
	if err := netlink.LinkDel(mustLink(t, LinkName)); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: LinkName},
		PeerName: "peer"}); err != nil {
		t.Fatal(err)
	}
	err = prepare(context.Background(), netip.MustParseAddr("10.43.0.10"),
		newNoTrack(netip.Addr{}, logrus.NewEntry(logrus.New())))
	if err == nil || !strings.Contains(err.Error(), "of type veth") {
		t.Errorf("a foreign link of the name: prepare = %v", err)
	}
}

func askNode(network string) error {
	c := &dns.Client{Net: network}
	m, _, err := c.Exchange(new(dns.Msg).SetQuestion("kubernetes.default.svc.cluster.local.", dns.TypeA),
		"10.43.0.10:53")
	if err == nil && len(m.Answer) != 1 {
		err = fmt.Errorf("answer %v", m)
	}
	return err
}

// startPod connects a second namespace by a pair of links and returns a
// function that asks from there.
func startPod(t *testing.T) func(network string) string {
	t.Helper()
	cmd := child(t, "TestRolePod", "pod")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	wait, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = wait() })
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "cni0"}, PeerName: "eth0"}
	if err := netlink.LinkAdd(veth); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetNsPid(mustLink(t, "eth0"), cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	address(t, "cni0", "10.42.0.1/24")
	lines := bufio.NewScanner(out)
	return func(network string) string {
		if _, err := fmt.Fprintln(in, network); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			if answer, ok := strings.CutPrefix(lines.Text(), "answer: "); ok {
				return answer
			}
		}
		return "the pod ended"
	}
}

// TestRolePod is the pod of TestRoleNode: for each line it asks by the network
// that the line names.
func TestRolePod(t *testing.T) {
	if os.Getenv(roleVariable) != "pod" {
		t.Skip("runs as a child of TestRoleNode")
	}
	requests := bufio.NewScanner(os.Stdin)
	for first := true; requests.Scan(); first = false {
		if first {
			address(t, "eth0", "10.42.0.5/24")
			route := &netlink.Route{Gw: net.IPv4(10, 42, 0, 1)}
			if err := netlink.RouteAdd(route); err != nil {
				t.Fatal(err)
			}
		}
		answer := "ok"
		if err := askNode(requests.Text()); err != nil {
			answer = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println("answer: " + answer)
	}
}

func mustLink(t *testing.T, name string) netlink.Link {
	t.Helper()
	link, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return link
}

func up(t *testing.T, name string) {
	t.Helper()
	if err := netlink.LinkSetUp(mustLink(t, name)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func address(t *testing.T, name, cidr string) {
	t.Helper()
	a, err := netlink.ParseAddr(cidr)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrAdd(mustLink(t, name), a); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	up(t, name)
}
