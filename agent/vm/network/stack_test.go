package network

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/a4s-io/a4s/tests/nstest"
)

// fakeGuest is a network namespace that has the pod's addresses behind its tap
// device, as a guest has.
func fakeGuest(t *testing.T, a *Attachment, tap *os.File) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "guest")
	if err := createNamespace(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeNamespace(path); err != nil {
			t.Error(err)
		}
	})
	var inside *os.File
	err := inNamespace(path, func() (err error) {
		if inside, err = newTap(Interface); err != nil {
			return err
		}
		link, err := netlink.LinkByName(Interface)
		if err != nil {
			return err
		}
		mac, err := net.ParseMAC(a.MAC)
		if err != nil {
			return err
		}
		if err := errors.Join(netlink.LinkSetHardwareAddr(link, mac), netlink.LinkSetMTU(link, a.MTU),
			netlink.LinkSetUp(link)); err != nil {
			return err
		}
		for _, p := range a.Addresses {
			addr, err := netlink.ParseAddr(p.String())
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(link, addr); err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pump := func(to, from *os.File) {
		buf := make([]byte, 128<<10)
		for {
			n, err := from.Read(buf)
			if err != nil {
				return // closed
			}
			_, _ = to.Write(buf[:n]) // a link that is not up yet
		}
	}
	go pump(inside, tap)
	go pump(tap, inside)
	t.Cleanup(func() { _ = errors.Join(inside.Close(), tap.Close()) })
	return path
}

// TestBothFamiliesThroughTheTap connects in both directions.
func TestBothFamiliesThroughTheTap(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	n := newNode(t)
	a, err := n.Setup(t.Context(), web)
	if err != nil {
		t.Fatal(err)
	}
	tap, err := n.Tap(web.ID)
	if err != nil {
		t.Fatal(err)
	}
	guest := fakeGuest(t, a, tap)
	inGuest := func(f func() error) error { return inNamespace(guest, f) }
	inPlace := func(f func() error) error { return f() }
	for _, tc := range []struct {
		name, address  string
		server, client func(func() error) error
	}{
		{"IPv4 out", "10.88.0.1:7000", inPlace, inGuest},
		{"IPv4 in", "10.88.0.2:7000", inGuest, inPlace},
		{"IPv6 out", "[fd00:88::1]:7000", inPlace, inGuest},
		{"IPv6 in", "[fd00:88::2]:7000", inGuest, inPlace},
	} {
		if err := exchange(tc.address, tc.server, tc.client); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// exchange sends a lot from a server to a client.
func exchange(address string, server, client func(func() error) error) error {
	const size = 1 << 20
	deadline := time.Now().Add(2 * time.Minute)
	var l net.Listener
	for l == nil { // until the address may be used
		err := server(func() (err error) {
			l, err = net.Listen("tcp", address)
			return err
		})
		if err != nil && time.Now().After(deadline) {
			return err
		}
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Write(make([]byte, size)) // the client counts
		_ = conn.Close()
	}()
	var conn net.Conn
	for conn == nil {
		err := client(func() (err error) {
			conn, err = net.DialTimeout("tcp", address, 3*time.Second)
			return err
		})
		if err != nil && time.Now().After(deadline) {
			return err
		}
	}
	defer conn.Close()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if n, err := io.Copy(io.Discard, conn); err != nil || n != size {
		return fmt.Errorf("%d bytes came: %w", n, err)
	}
	return nil
}
