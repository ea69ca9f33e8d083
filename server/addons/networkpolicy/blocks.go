package networkpolicy

import (
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/a4s-io/a4s/internal/netpolicy"
)

// blockRanges returns what is in one of the blocks and not in its exceptions,
// sorted and without overlaps.
func blockRanges(blocks []*networkingv1.IPBlock) []netpolicy.Range {
	var all []netpolicy.Range
	for _, b := range blocks {
		cidr, err := netip.ParsePrefix(b.CIDR)
		if err != nil {
			continue // refused by validation; it matches nothing
		}
		left := []netpolicy.Range{rangeOf(cidr)}
		for _, e := range b.Except {
			if except, err := netip.ParsePrefix(e); err == nil {
				left = without(left, rangeOf(except))
			}
		}
		all = append(all, left...)
	}
	return merge(all)
}

func rangeOf(p netip.Prefix) netpolicy.Range {
	first := p.Masked().Addr()
	last := first.AsSlice()
	for bit := p.Bits(); bit < first.BitLen(); bit++ {
		last[bit/8] |= 1 << (7 - bit%8)
	}
	addr, _ := netip.AddrFromSlice(last) // as long as it came
	return netpolicy.Range{First: first, Last: addr}
}

// without returns ranges less the addresses of cut.
func without(ranges []netpolicy.Range, cut netpolicy.Range) []netpolicy.Range {
	var out []netpolicy.Range
	for _, r := range ranges {
		if r.First.BitLen() != cut.First.BitLen() || cut.Last.Less(r.First) || r.Last.Less(cut.First) {
			out = append(out, r)
			continue
		}
		if r.First.Less(cut.First) {
			out = append(out, netpolicy.Range{First: r.First, Last: cut.First.Prev()})
		}
		if cut.Last.Less(r.Last) {
			out = append(out, netpolicy.Range{First: cut.Last.Next(), Last: r.Last})
		}
	}
	return out
}

// merge joins ranges that overlap or touch: the kernel takes no overlaps.
func merge(ranges []netpolicy.Range) []netpolicy.Range {
	slices.SortFunc(ranges, func(a, b netpolicy.Range) int { return a.First.Compare(b.First) })
	var out []netpolicy.Range
	for _, r := range ranges {
		if n := len(out); n > 0 && out[n-1].First.BitLen() == r.First.BitLen() {
			last := &out[n-1].Last
			if next := last.Next(); !next.IsValid() || !next.Less(r.First) {
				if last.Less(r.Last) {
					*last = r.Last
				}
				continue
			}
		}
		out = append(out, r)
	}
	return out
}
