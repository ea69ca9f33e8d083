package dns

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// reverseName is a name below in-addr.arpa or ip6.arpa.
type reverseName struct {
	prefix netip.Prefix // as long as the labels are
	// below says that the name has further labels that are no address.
	below bool
}

// full reports whether the name stands for one address.
func (r reverseName) full() bool { return !r.below && r.prefix.IsSingleIP() }

// parseReverse parses name, which is in lower case.
func parseReverse(name string) (reverseName, bool) {
	var size, base int // bits of a label, its radix
	var raw [16]byte
	var v4 bool
	var labels []string
	switch {
	case dns.IsSubDomain("in-addr.arpa.", name):
		size, base, v4 = 8, 10, true
		labels = labelsBelow("in-addr.arpa.", name)
	case dns.IsSubDomain("ip6.arpa.", name):
		size, base = 4, 16
		labels = labelsBelow("ip6.arpa.", name)
	default:
		return reverseName{}, false
	}
	width := 128
	if v4 {
		width = 32
	}
	bits := 0
	var out reverseName
	for i := len(labels) - 1; i >= 0; i-- {
		n, err := strconv.ParseUint(labels[i], base, size)
		if err != nil || bits == width || len(labels[i]) > 1 && labels[i][0] == '0' {
			out.below = true
			break
		}
		raw[bits/8] |= byte(n) << (8 - size - bits%8)
		bits += size
	}
	addr := netip.AddrFrom16(raw)
	if v4 {
		addr = netip.AddrFrom4([4]byte(raw[:4]))
	}
	out.prefix = netip.PrefixFrom(addr, bits)
	return out, true
}

// zone returns the reverse zone that name is in when cidr is served, at
// the label boundary that is not above cidr; false if it is in none.
func (r reverseName) zone(cidr netip.Prefix) (string, bool) {
	if !cidr.IsValid() || r.prefix.Addr().Is4() != cidr.Addr().Is4() ||
		r.prefix.Bits() < cidr.Bits() || !cidr.Contains(r.prefix.Addr()) {
		return "", false
	}
	full, err := dns.ReverseAddr(r.prefix.Addr().String())
	if err != nil {
		return "", false
	}
	size, width := 8, 32
	if cidr.Addr().Is6() {
		size, width = 4, 128
	}
	cut := (cidr.Bits() + size - 1) / size // labels of the zone
	labels := dns.Split(full)
	return full[labels[width/size-cut]:], true
}

// labelsBelow returns the labels of name, a subdomain of parent, above parent.
func labelsBelow(parent, name string) []string {
	above := strings.TrimSuffix(name, parent)
	if above == "" {
		return nil // which SplitDomainName would call one empty label
	}
	return dns.SplitDomainName(above)
}
