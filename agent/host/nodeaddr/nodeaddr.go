package nodeaddr

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/a4s-io/a4s/agent/network/netdump"
	"github.com/a4s-io/a4s/internal/problem"
)

// Choice is the outcome of Choose.
type Choice struct {
	// IPs are the node's addresses, at most one per family, the primary
	// one first.
	IPs []netip.Addr
	// Iface is the interface for traffic between nodes.
	Iface string
	// Reason says why, as a clause for the log.
	Reason string
}

// Strings returns the addresses in text form.
func (c Choice) Strings() []string {
	out := make([]string, len(c.IPs))
	for i, ip := range c.IPs {
		out[i] = ip.String()
	}
	return out
}

// Choose picks the node's addresses and interface. nodeIPs is --node-ip and
// iface is --flannel-iface; either may be empty.
func Choose(nodeIPs []string, iface string) (Choice, error) {
	host, err := scan()
	if err != nil {
		return Choice{}, fmt.Errorf("reading the machine's interfaces: %w", err)
	}
	return host.choose(nodeIPs, iface)
}

// link is one interface with the addresses that a node could use.
type link struct {
	name    string
	index   int
	up      bool
	virtual bool
	addrs   []netip.Addr // global unicast, in kernel order
}

// route is one default route.
type route struct {
	index    int
	priority int
	v6       bool
	src      netip.Addr // invalid when the route names none
}

type machine struct {
	links  []link
	routes []route
}

func scan() (*machine, error) {
	m := &machine{}
	links, err := netdump.Complete(netlink.LinkList)
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		a := l.Attrs()
		entry := link{name: a.Name, index: a.Index, up: a.Flags&net.FlagUp != 0, virtual: isVirtual(l)}
		addrs, err := netdump.Complete(func() ([]netlink.Addr, error) {
			return netlink.AddrList(l, netlink.FAMILY_ALL)
		})
		if err != nil {
			return nil, err
		}
		for _, ad := range addrs {
			if ip, ok := netip.AddrFromSlice(ad.IP); ok && usable(ip.Unmap()) {
				entry.addrs = append(entry.addrs, ip.Unmap())
			}
		}
		m.links = append(m.links, entry)
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := netdump.Complete(func() ([]netlink.Route, error) { return netlink.RouteList(nil, family) })
		if err != nil {
			if family == netlink.FAMILY_V6 {
				continue // a kernel without IPv6
			}
			return nil, err
		}
		for _, r := range routes {
			if r.Dst != nil && !(r.Dst.IP.IsUnspecified() && isZeroMask(r.Dst.Mask)) {
				continue
			}
			entry := route{index: r.LinkIndex, priority: r.Priority, v6: family == netlink.FAMILY_V6}
			if entry.index == 0 && len(r.MultiPath) > 0 {
				entry.index = r.MultiPath[0].LinkIndex
			}
			if src, ok := netip.AddrFromSlice(r.Src); ok {
				entry.src = src.Unmap()
			}
			m.routes = append(m.routes, entry)
		}
	}
	return m, nil
}

func isZeroMask(m net.IPMask) bool {
	ones, _ := m.Size()
	return ones == 0
}

func usable(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsLoopback() && !ip.IsLinkLocalUnicast()
}

// isVirtual tells links that software makes for containers and tunnels from
// those that lead to other machines. Bonds, VLANs and the veth of a container
// that is itself the node do lead there.
func isVirtual(l netlink.Link) bool {
	switch l.Type() {
	case "device", "bond", "vlan", "macvlan", "ipvlan", "veth", "team":
	default:
		return true
	}
	// A veth with a master is the host's end of a container's link.
	return l.Type() == "veth" && l.Attrs().MasterIndex != 0
}

func (m *machine) choose(nodeIPs []string, iface string) (Choice, error) {
	var wanted *link
	if iface != "" {
		wanted = m.byName(iface)
		if wanted == nil {
			return Choice{}, &problem.Input{Source: "--flannel-iface", Value: iface,
				Want: "the name of an interface of this machine: " + m.names()}
		}
	}
	if len(nodeIPs) > 0 {
		return m.configured(nodeIPs, wanted)
	}
	if wanted != nil {
		ips := first(wanted.addrs)
		if len(ips) == 0 {
			return Choice{}, &problem.Input{Source: "--flannel-iface", Value: iface,
				Want: "an interface with a global unicast address: " + m.names()}
		}
		return Choice{IPs: ips, Iface: iface, Reason: "address of --flannel-iface"}, nil
	}
	if c, ok := m.byDefaultRoute(); ok {
		return c, nil
	}
	for _, l := range m.links {
		if l.up && !l.virtual && len(l.addrs) > 0 {
			return Choice{IPs: first(l.addrs), Iface: l.name,
				Reason: "first address of an interface that is up, because there is no default route"}, nil
		}
	}
	return Choice{}, &problem.Precondition{
		What: "node address",
		Err:  errors.New("no default route, and no interface that is up has a global unicast address"),
		Fix:  "configure an interface, or set --node-ip to an address of this machine",
	}
}

func (m *machine) configured(nodeIPs []string, wanted *link) (Choice, error) {
	c := Choice{Reason: "--node-ip"}
	for _, s := range nodeIPs {
		ip, err := netip.ParseAddr(strings.TrimSpace(s))
		if err != nil {
			return Choice{},
				&problem.Input{Source: "--node-ip", Value: s, Want: "an IP address of this machine: " + m.addresses()}
		}
		ip = ip.Unmap()
		owner := m.byAddr(ip)
		if owner == nil {
			return Choice{},
				&problem.Input{Source: "--node-ip", Value: s, Want: "an IP address of this machine: " + m.addresses()}
		}
		if slices.ContainsFunc(c.IPs, func(o netip.Addr) bool { return o.Is4() == ip.Is4() }) {
			return Choice{}, &problem.Input{Source: "--node-ip", Value: s, Want: "at most one address per IP family"}
		}
		c.IPs = append(c.IPs, ip)
		if c.Iface == "" {
			c.Iface = owner.name
		}
	}
	if wanted != nil {
		c.Iface = wanted.name
		c.Reason = "--node-ip and --flannel-iface"
	}
	return c, nil
}

func (m *machine) byDefaultRoute() (Choice, bool) {
	routes := slices.Clone(m.routes)
	slices.SortStableFunc(routes, func(a, b route) int {
		if a.v6 != b.v6 { // IPv4 decides when there is a choice
			if a.v6 {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.priority, b.priority)
	})
	for _, r := range routes {
		l := m.byIndex(r.index)
		if l == nil || !l.up {
			continue
		}
		ip := r.src
		if !ip.IsValid() || !usable(ip) {
			i := slices.IndexFunc(l.addrs, func(a netip.Addr) bool { return a.Is6() == r.v6 })
			if i < 0 {
				continue
			}
			ip = l.addrs[i]
		}
		return Choice{IPs: []netip.Addr{ip}, Iface: l.name, Reason: "address of the interface of the default route"},
			true
	}
	return Choice{}, false
}

// first returns the first IPv4 address, or else the first IPv6 address. A
// second family is never chosen unasked: a cluster is single-stack by default.
func first(addrs []netip.Addr) []netip.Addr {
	if i := slices.IndexFunc(addrs, netip.Addr.Is4); i >= 0 {
		return addrs[i : i+1]
	}
	return addrs[:min(1, len(addrs))]
}

func (m *machine) byName(name string) *link {
	return m.find(func(l link) bool { return l.name == name })
}

func (m *machine) byIndex(index int) *link {
	return m.find(func(l link) bool { return l.index == index })
}

func (m *machine) byAddr(ip netip.Addr) *link {
	return m.find(func(l link) bool { return slices.Contains(l.addrs, ip) })
}

func (m *machine) find(match func(link) bool) *link {
	if i := slices.IndexFunc(m.links, match); i >= 0 {
		return &m.links[i]
	}
	return nil
}

func (m *machine) names() string {
	var out []string
	for _, l := range m.links {
		if len(l.addrs) > 0 {
			out = append(out, l.name)
		}
	}
	return orNone(out)
}

func (m *machine) addresses() string {
	var out []string
	for _, l := range m.links {
		for _, a := range l.addrs {
			out = append(out, a.String())
		}
	}
	return orNone(out)
}

func orNone(s []string) string {
	if len(s) == 0 {
		return "(it has none)"
	}
	return strings.Join(s, ", ")
}
