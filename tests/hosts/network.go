package hosts

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// linkPrefix begins the name of every link on the machine's side; names of
// links have at most 15 bytes.
const linkPrefix = "a4se2e"

// makeBridge makes the bridge with an address of a network that the machine
// has no route to yet.
func (l *Lab) makeBridge() error {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return err
	}
	used := func(ip net.IP) bool {
		for _, r := range routes {
			ones := 0
			if r.Dst != nil {
				ones, _ = r.Dst.Mask.Size()
			}
			if ones > 0 && r.Dst.Contains(ip) {
				return true
			}
		}
		return false
	}
	for range 100 {
		if ip := net.IPv4(10, 99, byte(rand.N(256)), 254); !used(ip) {
			l.Gateway = ip
			break
		}
	}
	if l.Gateway == nil {
		return errors.New("no free network in 10.99.0.0/16")
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = linkPrefix + l.id + "br"
	// A bridge that is given none takes the lowest one of its links, and another one when such
	// a host comes or goes. What others send to the machine is lost then, for many seconds.
	attrs.HardwareAddr = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(bridge); err != nil {
		return err
	}
	l.bridge = bridge
	if err := netlink.AddrAdd(bridge, &netlink.Addr{IPNet: l.subnet(l.Gateway)}); err != nil {
		return err
	}
	return netlink.LinkSetUp(bridge)
}

func (l *Lab) subnet(ip net.IP) *net.IPNet {
	return &net.IPNet{IP: ip, Mask: net.CIDRMask(24, 32)}
}

// connect gives the host whose first process is pid the link eth0 with its
// address and a default route over the bridge.
func (h *Host) connect(pid int) error {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return err
	}
	defer ns.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = h.link
	attrs.MasterIndex = h.lab.bridge.Index
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(ns)}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("making the veth pair: %w", err)
	}
	if err := netlink.LinkSetUp(veth); err != nil {
		return err
	}
	inside, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer inside.Close()
	for _, name := range []string{"lo", "eth0"} {
		link, err := inside.LinkByName(name)
		if err != nil {
			return fmt.Errorf("link %s of the host: %w", name, err)
		}
		if name == "eth0" {
			if err := inside.AddrAdd(link, &netlink.Addr{IPNet: h.lab.subnet(h.IP)}); err != nil {
				return err
			}
		}
		if err := inside.LinkSetUp(link); err != nil {
			return err
		}
	}
	return inside.RouteAdd(&netlink.Route{Gw: h.lab.Gateway})
}

func deleteLink(name string) error {
	link, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return err
	}
	err = netlink.LinkDel(link)
	// The end of a veth pair goes by itself with the namespace of the other.
	if _, gone := netlink.LinkByName(name); errors.As(gone, &missing) {
		return nil
	}
	return err
}

// Unplug cuts the host off from the network of its lab; what runs in it goes on.
func (h *Host) Unplug() error { return h.setLink(netlink.LinkSetDown) }

// Plug undoes Unplug.
func (h *Host) Plug() error { return h.setLink(netlink.LinkSetUp) }

func (h *Host) setLink(set func(netlink.Link) error) error {
	link, err := netlink.LinkByName(h.link)
	if err != nil {
		return err
	}
	return set(link)
}

// Readdress gives the host another address, as a machine that moved has. The
// old one is gone.
func (h *Host) Readdress() error {
	h.lab.mu.Lock()
	h.lab.made++
	ip := net.IPv4(h.lab.Gateway[12], h.lab.Gateway[13], h.lab.Gateway[14], byte(h.lab.made))
	h.lab.mu.Unlock()
	ns, err := netns.GetFromPid(h.init.Process.Pid)
	if err != nil {
		return err
	}
	defer ns.Close()
	inside, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer inside.Close()
	link, err := inside.LinkByName("eth0")
	if err != nil {
		return err
	}
	// The other way round the new one would go with the old one.
	if err := inside.AddrDel(link, &netlink.Addr{IPNet: h.lab.subnet(h.IP)}); err != nil {
		return err
	}
	if err := inside.AddrAdd(link, &netlink.Addr{IPNet: h.lab.subnet(ip)}); err != nil {
		return err
	}
	h.IP = ip
	return inside.RouteReplace(&netlink.Route{Gw: h.lab.Gateway})
}
