package spaces_test

import (
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/tests/planes"
)

const (
	// outsideAddress begins those of hosts outside of the cluster: webhooks of
	// tenants are not called at the machine of the API server.
	outsideAddress = "198.51.100."
	outsideLink    = "outside"
)

// listenOutside listens at an address that is not this machine's, but of a
// host behind a link of its own: one outside of the cluster if it is "". Port 0
// is any. Pods are such hosts, too.
func listenOutside(t *testing.T, address string, port int) net.Listener {
	t.Helper()
	done := make(chan error, 1)
	var listener net.Listener
	go func() {
		// For ever: the thread stays in the namespace, which goes with it and
		// with the listener.
		runtime.LockOSThread()
		var err error
		listener, err = listenBehindLink(address, port)
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("listening at %s: %v", address, err)
	}
	return listener
}

// links counts those that were made, which their names and addresses say: a link
// goes with its listener.
var links atomic.Int32

// listenBehindLink makes a network namespace with the address and the link to
// it. The thread is in it when it returns.
func listenBehindLink(address string, port int) (net.Listener, error) {
	here, err := netlink.NewHandle()
	if err != nil {
		return nil, err
	}
	defer here.Close()
	number := strconv.Itoa(int(links.Add(1)))
	if address == "" {
		address = outsideAddress + number
	}
	far, err := netlink.ParseAddr(address + "/32")
	if err != nil {
		return nil, err
	}
	near := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: outsideLink + number}, PeerName: "far" + number}
	if err := here.LinkAdd(near); err != nil {
		return nil, fmt.Errorf("making a link: %w", err)
	}
	if err := here.LinkSetUp(near); err != nil {
		return nil, err
	}
	route := &netlink.Route{LinkIndex: near.Attrs().Index, Dst: far.IPNet, Scope: netlink.SCOPE_LINK,
		Src: net.ParseIP(planes.Address)}
	if err := here.RouteReplace(route); err != nil {
		return nil, fmt.Errorf("making a route to %s: %w", address, err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	peer, err := here.LinkByName(near.PeerName)
	if err != nil {
		return nil, err
	}
	if err := here.LinkSetNsPid(peer, unix.Gettid()); err != nil {
		return nil, fmt.Errorf("moving a link: %w", err)
	}
	if peer, err = netlink.LinkByName(near.PeerName); err != nil {
		return nil, err
	}
	if err := netlink.AddrAdd(peer, far); err != nil {
		return nil, err
	}
	if err := netlink.LinkSetUp(peer); err != nil {
		return nil, err
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: peer.Attrs().Index, Scope: netlink.SCOPE_LINK,
		Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}}); err != nil {
		return nil, fmt.Errorf("making the way back: %w", err)
	}
	return net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
}
