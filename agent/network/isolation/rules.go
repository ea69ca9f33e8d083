package isolation

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/internal/space"
)

// TableName is the name of the nftables table; its family is inet.
const TableName = "a4s_tenants"

// state is all that the rules depend on.
type state struct {
	clusters []netip.Prefix               // the pod network
	bridge   string                       // that local pods are attached to
	local    map[netip.Addr]localpods.Pod // this node's pods
	known    map[netip.Addr]localpods.Pod // what the server told
}

// rules writes the table.
type rules struct {
	strings.Builder
	all map[netip.Addr]localpods.Pod
}

func (r *rules) line(format string, args ...any) { fmt.Fprintf(&r.Builder, format+"\n", args...) }

// families are the variants that every rule on addresses has.
var families = [...]struct {
	match, addrType, suffix string
	has                     func(netip.Addr) bool
}{
	{"ip", "ipv4_addr", "4", netip.Addr.Is4},
	{"ip6", "ipv6_addr", "6", netip.Addr.Is6},
}

// render returns the nft script that puts the table in place of an older one.
func (s state) render() string {
	r := &rules{all: map[netip.Addr]localpods.Pod{}}
	maps.Copy(r.all, s.known)
	maps.Copy(r.all, s.local) // seen beats told
	maps.DeleteFunc(r.all, func(_ netip.Addr, p localpods.Pod) bool { return !valid(p) })
	present := map[string]bool{} // tenants with pods on this node
	for _, p := range s.local {
		if valid(p) && p.Tenant != space.System {
			present[p.Tenant] = true
		}
	}
	tenants := slices.Sorted(maps.Keys(present))

	r.line("add table inet %s", TableName)
	r.line("delete table inet %s", TableName)
	r.line("table inet %s {", TableName)
	for _, f := range families {
		var ranges []string
		for _, c := range s.clusters {
			if f.has(c.Addr()) {
				ranges = append(ranges, c.Masked().String())
			}
		}
		r.line("\tset cluster-%s { type %s; flags interval;%s }", f.suffix, f.addrType, elements(ranges))
	}
	r.set("system", func(p localpods.Pod) bool { return p.Tenant == space.System })
	r.set("shared", func(p localpods.Pod) bool { return p.Tenant == space.System && p.Shared })
	r.set("tenants", func(p localpods.Pod) bool { return p.Tenant != space.System })
	for _, t := range tenants {
		r.set("of-"+t, func(p localpods.Pod) bool { return p.Tenant == t })
	}
	for _, t := range tenants {
		r.chain("from-"+t, "daddr", "return", "of-"+t, "shared")
		r.chain("to-"+t, "saddr", "accept", "of-"+t, "system")
	}
	r.line("\tchain to-system {")
	for _, f := range families {
		r.line("\t\t%s saddr @tenants-%s drop", f.match, f.suffix)
	}
	r.line("\t}")
	s.unknown(r)
	s.forward(r, len(tenants) > 0)
	r.line("}")
	return r.String()
}

// chain judges by the other side's address: members of the sets are allowed,
// the rest of the pod network is not.
func (r *rules) chain(name, side, verdict string, sets ...string) {
	r.line("\tchain %s {", name)
	for _, f := range families {
		for _, set := range sets {
			r.line("\t\t%s %s @%s-%s %s", f.match, side, set, f.suffix, verdict)
		}
		r.line("\t\t%s %s @cluster-%s drop", f.match, side, f.suffix)
	}
	r.line("\t}")
}

// unknown judges what goes to the bridge and to no pod that is known: one that
// was attached a moment ago, or many at once (broadcast, multicast, and the
// link-local addresses that pods have even where the pod network has no IPv6).
func (s state) unknown(r *rules) {
	r.line("\tchain to-unknown {")
	r.line("\t\ticmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } accept")
	for _, f := range families {
		r.line("\t\t%s saddr @system-%s accept", f.match, f.suffix)
		r.line("\t\t%s saddr @cluster-%s drop", f.match, f.suffix)
	}
	r.line("\t\tiifname %q drop", s.bridge)
	r.line("\t}")
}

// forward is where packets come in.
func (s state) forward(r *rules, tenants bool) {
	for _, f := range families {
		var sources, targets []string
		for _, addr := range slices.SortedFunc(maps.Keys(s.local), netip.Addr.Compare) {
			p := s.local[addr]
			switch {
			case !f.has(addr) || !valid(p):
			case p.Tenant != space.System:
				sources = append(sources, fmt.Sprintf("%s : jump from-%s", addr, p.Tenant))
				targets = append(targets, fmt.Sprintf("%s : goto to-%s", addr, p.Tenant))
			case p.Shared:
				targets = append(targets, fmt.Sprintf("%s : accept", addr))
			default:
				targets = append(targets, fmt.Sprintf("%s : goto to-system", addr))
			}
		}
		r.line("\tmap sources-%s { type %s : verdict;%s }", f.suffix, f.addrType, elements(sources))
		r.line("\tmap targets-%s { type %s : verdict;%s }", f.suffix, f.addrType, elements(targets))
	}
	r.line("\tchain forward {")
	r.line("\t\ttype filter hook forward priority filter - 10; policy accept;")
	r.line("\t\tct state established,related accept")
	for _, f := range families {
		r.line("\t\t%s saddr vmap @sources-%s", f.match, f.suffix)
		r.line("\t\t%s daddr vmap @targets-%s", f.match, f.suffix)
	}
	if tenants && s.bridge != "" {
		r.line("\t\toifname %q jump to-unknown", s.bridge)
	}
	r.line("\t}")
}

// set writes the set of the addresses that member picks, for each family.
func (r *rules) set(name string, member func(localpods.Pod) bool) {
	for _, f := range families {
		var addrs []netip.Addr
		for addr, p := range r.all {
			if f.has(addr) && member(p) {
				addrs = append(addrs, addr)
			}
		}
		slices.SortFunc(addrs, netip.Addr.Compare)
		texts := make([]string, len(addrs))
		for i, a := range addrs {
			texts[i] = a.String()
		}
		r.line("\tset %s-%s { type %s;%s }", name, f.suffix, f.addrType, elements(texts))
	}
}

func elements(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return " elements = { " + strings.Join(list, ", ") + " };"
}

// valid guards the script: a tenant's name becomes part of it.
func valid(p localpods.Pod) bool {
	return p.Tenant == space.System || space.ValidateTenant(p.Tenant) == nil
}
