package network

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// key compares four bytes of a frame. Offsets count from behind the Ethernet
// header, in steps of four.
type key struct {
	mask, value uint32
	offset      int32
}

// rule lets the frames of a protocol that match all keys through.
type rule struct {
	protocol uint16
	keys     []key
}

// Offsets in Ethernet frames, IPv4, ARP and IPv6 packets.
const (
	sourceMAC      = -8
	ipv4Source     = 12
	arpSender      = 8
	ipv6NextHeader = 4
	ipv6Source     = 8
	icmpv6Type     = 40
	ndTarget       = 48
)

// sourceRules let a guest send from its own addresses, and say that these are
// its own, and nothing else: the addresses of pods are how tenants are told
// apart, and whoever is root in a guest may give it any. What no rule lets
// through is left to the namespace, which forwards nothing. There are no rules
// that forbid: not every kernel has an action to drop.
func sourceRules(mac net.HardwareAddr, addrs []netip.Prefix) []rule {
	own := []key{
		{0xffffffff, binary.BigEndian.Uint32(mac[:4]), sourceMAC},
		{0xffff0000, uint32(binary.BigEndian.Uint16(mac[4:])) << 16, sourceMAC + 4},
	}
	// Who has not got its address yet asks whether another one has it.
	rules := []rule{{unix.ETH_P_ARP, arpFrom(own, mac, 0)}}
	for _, p := range addrs {
		if ip := p.Addr(); ip.Is4() {
			rules = append(rules,
				rule{unix.ETH_P_IP, slices.Concat(own, []key{{^uint32(0), word4(ip), ipv4Source}})},
				rule{unix.ETH_P_ARP, arpFrom(own, mac, word4(ip))})
		}
	}
	linkLocal := func(offset int32) []key {
		return []key{{^uint32(0), 0xfe800000, offset}, {^uint32(0), 0, offset + 4}}
	}
	for _, p := range addrs {
		if ip := p.Addr(); ip.Is6() {
			from := slices.Concat(own, words6(ip, ipv6Source))
			for _, carried := range slices.Concat([][]key{next(unix.IPPROTO_TCP), next(unix.IPPROTO_UDP),
				next(unix.IPPROTO_FRAGMENT), next(unix.IPPROTO_ESP), next(unix.IPPROTO_SCTP)}, harmlessICMPv6()) {
				rules = append(rules, rule{unix.ETH_P_IPV6, slices.Concat(from, carried)})
			}
			rules = append(rules,
				rule{unix.ETH_P_IPV6, slices.Concat(own, icmp(neighborAdvertisement, 0xff), words6(ip, ndTarget))})
		}
	}
	for _, carried := range harmlessICMPv6() {
		rules = append(rules,
			rule{unix.ETH_P_IPV6, slices.Concat(own, linkLocal(ipv6Source), carried)},
			rule{unix.ETH_P_IPV6, slices.Concat(own, words6(netip.IPv6Unspecified(), ipv6Source), carried)})
	}
	return append(rules,
		rule{unix.ETH_P_IPV6, slices.Concat(own, icmp(neighborAdvertisement, 0xff), linkLocal(ndTarget))},
		rule{unix.ETH_P_IPV6, slices.Concat(own, linkLocal(ipv6Source), next(unix.IPPROTO_UDP))}) // DHCPv6
}

// neighborAdvertisement is the type of the message that says who has an
// address.
const neighborAdvertisement = 136

// next matches IPv6 packets by what follows the header. Other headers could
// hide an advertisement.
func next(protocol uint32) []key { return []key{{0xff00, protocol << 8, ipv6NextHeader}} }

func icmp(kind, mask uint32) []key {
	return append(next(unix.IPPROTO_ICMPV6), key{mask << 24, kind << 24, icmpv6Type})
}

// harmlessICMPv6 are errors, echoes, and questions for routers and neighbors;
// not what routers say.
func harmlessICMPv6() [][]key {
	return [][]key{icmp(0, 0x80), icmp(128, 0xfc), icmp(133, 0xff), icmp(135, 0xff)}
}

func word4(ip netip.Addr) uint32 {
	b := ip.As4()
	return binary.BigEndian.Uint32(b[:])
}

func words6(ip netip.Addr, offset int32) []key {
	b := ip.As16()
	var keys []key
	for i := int32(0); i < 16; i += 4 {
		keys = append(keys, key{0xffffffff, binary.BigEndian.Uint32(b[i:]), offset + i})
	}
	return keys
}

// arpFrom matches ARP packets whose sender has the hardware and IP address.
func arpFrom(own []key, mac net.HardwareAddr, ip uint32) []key {
	return append(own[:len(own):len(own)],
		key{0xffffffff, binary.BigEndian.Uint32(mac[:4]), arpSender},
		key{0xffffffff, uint32(binary.BigEndian.Uint16(mac[4:]))<<16 | ip>>16, arpSender + 4},
		key{0xffff0000, ip << 16, arpSender + 8})
}

// install has the frames that arrive at one interface leave at the other one
// where the rules say so.
func install(rules []rule, from, to netlink.Link) error {
	for i, r := range rules {
		filter := &netlink.U32{
			FilterAttrs: netlink.FilterAttrs{
				LinkIndex: from.Attrs().Index, Parent: ingress, Priority: uint16(i + 1), Protocol: r.protocol,
			},
			Sel:     &nl.TcU32Sel{Flags: nl.TC_U32_TERMINAL},
			Actions: []netlink.Action{netlink.NewMirredAction(to.Attrs().Index)},
		}
		for _, k := range r.keys {
			filter.Sel.Keys = append(filter.Sel.Keys, nl.TcU32Key{Mask: k.mask, Val: k.value, Off: k.offset})
		}
		if err := netlink.FilterAdd(filter); err != nil {
			return fmt.Errorf("redirecting %s to %s, rule %d: %w", from.Attrs().Name, to.Attrs().Name, i+1, err)
		}
	}
	return nil
}
