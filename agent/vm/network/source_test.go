package network

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/tests/nstest"
)

// frame is an Ethernet frame as a guest gives it to its tap device: behind an
// empty header about checksums.
func frame(src net.HardwareAddr, protocol uint16, payload []byte) []byte {
	f := make([]byte, 10, 128)
	f = append(f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	f = append(f, src...)
	f = binary.BigEndian.AppendUint16(f, protocol)
	return append(f, payload...)
}

func ipv4(src string) []byte {
	p := make([]byte, 20)
	p[0], p[8], p[9] = 0x45, 64, unix.IPPROTO_UDP
	copy(p[12:], netip.MustParseAddr(src).AsSlice())
	return p
}

func ipv6(src string, next byte, content ...byte) []byte {
	p := make([]byte, 40)
	p[0], p[6], p[7] = 0x60, next, 255
	copy(p[8:], netip.MustParseAddr(src).AsSlice())
	return append(p, content...)
}

// neighbor is a message about the address of a neighbor.
func neighbor(src string, kind byte, target string) []byte {
	return ipv6(src, unix.IPPROTO_ICMPV6,
		append([]byte{kind, 0, 0, 0, 0, 0, 0, 0}, netip.MustParseAddr(target).AsSlice()...)...)
}

func arp(sender net.HardwareAddr, ip string) []byte {
	p := []byte{0, 1, 8, 0, 6, 4, 0, 2}
	p = append(p, sender...)
	p = append(p, netip.MustParseAddr(ip).AsSlice()...)
	return append(p, make([]byte, 10)...)
}

func TestGuestIsHeardWithItsOwnAddresses(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	n := newNode(t)
	a, err := n.Setup(t.Context(), web)
	if err != nil {
		t.Fatal(err)
	}
	own, err := net.ParseMAC(a.MAC)
	if err != nil {
		t.Fatal(err)
	}
	other := net.HardwareAddr{2, 0, 0, 0, 0, 0x77}
	tap, err := n.Tap(web.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	heard := listen(t)
	const v4, v6, stranger4, stranger6, link = "10.88.0.2", "fd00:88::2", "10.88.0.77", "fd00:88::77", "fe80::1234"
	for i, tc := range []struct {
		name    string
		content []byte
		want    bool
	}{
		{"IPv4", frame(own, unix.ETH_P_IP, ipv4(v4)), true},
		{"IPv4, another address", frame(own, unix.ETH_P_IP, ipv4(stranger4)), false},
		{"IPv4, another hardware address", frame(other, unix.ETH_P_IP, ipv4(v4)), false},
		{"ARP", frame(own, unix.ETH_P_ARP, arp(own, v4)), true},
		{"ARP, no address yet", frame(own, unix.ETH_P_ARP, arp(own, "0.0.0.0")), true},
		{"ARP, another address", frame(own, unix.ETH_P_ARP, arp(own, stranger4)), false},
		{"ARP, for another one", frame(own, unix.ETH_P_ARP, arp(other, v4)), false},
		{"IPv6 TCP", frame(own, unix.ETH_P_IPV6, ipv6(v6, unix.IPPROTO_TCP)), true},
		{"IPv6 UDP", frame(own, unix.ETH_P_IPV6, ipv6(v6, unix.IPPROTO_UDP)), true},
		{"IPv6, another address", frame(own, unix.ETH_P_IPV6, ipv6(stranger6, unix.IPPROTO_TCP)), false},
		{"IPv6, another hardware address", frame(other, unix.ETH_P_IPV6, ipv6(v6, unix.IPPROTO_TCP)), false},
		{"IPv6 echo", frame(own, unix.ETH_P_IPV6, ipv6(v6, unix.IPPROTO_ICMPV6, 128, 0, 0, 0)), true},
		{"IPv6 too big", frame(own, unix.ETH_P_IPV6, ipv6(v6, unix.IPPROTO_ICMPV6, 2, 0, 0, 0)), true},
		{"DHCPv6", frame(own, unix.ETH_P_IPV6, ipv6(link, unix.IPPROTO_UDP)), true},
		{"link-local TCP", frame(own, unix.ETH_P_IPV6, ipv6(link, unix.IPPROTO_TCP)), false},
		{"who has", frame(own, unix.ETH_P_IPV6, neighbor(v6, 135, stranger6)), true},
		{"has anybody", frame(own, unix.ETH_P_IPV6, neighbor("::", 135, v6)), true},
		{"I have", frame(own, unix.ETH_P_IPV6, neighbor(v6, 136, v6)), true},
		{"I have, link-local", frame(own, unix.ETH_P_IPV6, neighbor(link, 136, link)), true},
		{"I have what is another one's", frame(own, unix.ETH_P_IPV6, neighbor(v6, 136, stranger6)), false},
		{"the same, link-local", frame(own, unix.ETH_P_IPV6, neighbor(link, 136, stranger6)), false},
		{"the same, hidden",
			frame(own, unix.ETH_P_IPV6, ipv6(v6, unix.IPPROTO_DSTOPTS, neighbor(v6, 136, stranger6)[40:]...)), false},
		{"I am a router", frame(own, unix.ETH_P_IPV6, neighbor(link, 134, "::")), false},
		{"use another router", frame(own, unix.ETH_P_IPV6, neighbor(link, 137, stranger6)), false},
		{"a tagged frame", frame(own, unix.ETH_P_8021Q, append([]byte{0, 1, 8, 0}, ipv4(stranger4)...)), false},
	} {
		mark := []byte{'#', byte(i), '#', byte(i), '#', byte(i)}
		last := frame(own, unix.ETH_P_IP, append(ipv4(v4), "last one"...))
		for _, content := range [][]byte{append(tc.content, mark...), last} {
			if _, err := tap.Write(content); err != nil {
				t.Fatal(err)
			}
		}
		if got := heard(mark, []byte("last one")); got != tc.want {
			t.Errorf("%s: heard is %v, want %v", tc.name, got, tc.want)
		}
	}
}

// listen hears what pods send. The function that it returns reports whether a
// frame with the mark came before one with the last mark.
func listen(t *testing.T) func(mark, last []byte) bool {
	t.Helper()
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	})
	for _, l := range links {
		if l.Type() != "veth" {
			continue
		}
		if err := unix.Bind(fd,
			&unix.SockaddrLinklayer{Protocol: all & 0xffff, Ifindex: l.Attrs().Index}); err != nil {
			t.Fatal(err)
		}
	}
	wait := unix.NsecToTimeval(int64(20 * time.Second))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		t.Fatal(err)
	}
	return func(mark, last []byte) (found bool) {
		t.Helper()
		buf := make([]byte, 2048)
		for {
			n, _, err := unix.Recvfrom(fd, buf, 0)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				t.Fatal("nothing is heard: ", err)
			}
			if bytes.Contains(buf[:n], mark) {
				found = true
			}
			if bytes.Contains(buf[:n], last) {
				return found
			}
		}
	}
}
