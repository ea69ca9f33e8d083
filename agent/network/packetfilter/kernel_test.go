package packetfilter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/tests/nstest"
)

// machine is a node in network namespaces: pods on a bridge, and one more
// machine behind a routed link, on which remote pods have addresses.
type machine struct{ t *testing.T }

// serve echoes at a port of address, with TCP and UDP.
func (m machine) serve(pod, address string) {
	m.t.Helper()
	err := nstest.In(pod, func() error {
		conn, err := net.ListenPacket("udp", address)
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		m.t.Cleanup(func() { _, _ = conn.Close(), listener.Close() })
		go func() {
			buf := make([]byte, 64)
			for {
				n, from, err := conn.ReadFrom(buf)
				if err != nil {
					return
				}
				_, _ = conn.WriteTo(buf[:n], from) // the asker notices
			}
		}()
		go func() {
			for {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(c, c); _ = c.Close() }() // the asker notices
			}
		}()
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// patient is how long an answer that must not come is waited for; those that
// must come are there within a fraction of it.
const patient = 250 * time.Millisecond

func (m machine) dial(pod, from, network, address string) (conn net.Conn, err error) {
	err = nstest.In(pod, func() error {
		d := net.Dialer{Timeout: patient}
		if from != "" {
			ap := netip.AddrPortFrom(netip.MustParseAddr(from), 0)
			d.LocalAddr = net.UDPAddrFromAddrPort(ap)
			if network == "tcp" {
				d.LocalAddr = net.TCPAddrFromAddrPort(ap)
			}
		}
		var err error
		conn, err = d.Dial(network, address)
		return err
	})
	return conn, err
}

func echoes(conn net.Conn, within time.Duration) bool {
	if _, err := conn.Write([]byte("?")); err != nil {
		return false
	}
	_ = conn.SetReadDeadline(time.Now().Add(within)) // what follows would fail
	_, err := conn.Read(make([]byte, 8))
	return err == nil
}

// reaches reports whether an answer comes back from address.
func (m machine) reaches(pod, from, network, address string) bool {
	m.t.Helper()
	for range 2 { // the first one may be lost while the neighbour is asked for
		conn, err := m.dial(pod, from, network, address)
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, syscall.EHOSTUNREACH) {
				continue
			}
			m.t.Fatalf("%s asks %s: %v", from, address, err)
		}
		ok := echoes(conn, patient)
		_ = conn.Close() // it has no more to say
		if ok {
			return true
		}
	}
	return false
}

// newMachine makes a node with these pods, which have addresses from 10.42.0.5 and
// fd00:42::5 on.
func newMachine(t *testing.T, pods ...string) machine {
	t.Helper()
	if err := netfilter.Probe(context.Background()).Nftables; err != nil {
		t.Skip("nftables does not work here: ", err)
	}
	nstest.Shell(t, `mount -t tmpfs none /run
		ip link set lo up
		ip link add br0 type bridge
		ip addr add 10.42.0.1/24 dev br0
		ip addr add fd00:42::1/64 dev br0 nodad
		ip link set br0 up
		echo 1 > /proc/sys/net/ipv4/ip_forward
		echo 1 > /proc/sys/net/ipv6/conf/all/forwarding`)
	if err := bridgeShown([]string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables"}); err != nil {
		t.Skip("bridged packets do not pass the packet filter here: ", err)
	}
	for i, name := range pods {
		nstest.Shell(t, fmt.Sprintf(`ip netns add %[1]s
			ip link add v%[1]s type veth peer name eth0 netns %[1]s
			ip link set v%[1]s master br0 up
			bridge link set dev v%[1]s hairpin on
			ip -n %[1]s link set lo up
			ip -n %[1]s addr add 10.42.0.%[2]d/24 dev eth0
			ip -n %[1]s addr add fd00:42::%[2]d/64 dev eth0 nodad
			ip -n %[1]s link set eth0 up
			ip -n %[1]s route add default via 10.42.0.1
			ip -n %[1]s route add default via fd00:42::1`, name, 5+i))
	}
	return machine{t}
}

// addNode adds another node, which has pods with these last bytes in 10.42.1.0/24,
// and is a machine outside of the cluster by its own address.
func (m machine) addNode(pods string) {
	m.t.Helper()
	nstest.Shell(m.t, fmt.Sprintf(`ip netns add far
		ip link add vfar type veth peer name eth0 netns far
		ip addr add 192.0.2.1/24 dev vfar
		ip link set vfar up
		ip -n far link set lo up
		ip -n far addr add 192.0.2.2/24 dev eth0
		for i in %s; do ip -n far addr add 10.42.1.$i/32 dev lo; done
		ip -n far link set eth0 up
		ip -n far route add 10.42.0.0/24 via 192.0.2.1
		ip route add 10.42.1.0/24 via 192.0.2.2`, pods))
}
