package packetfilter

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/internal/space"
)

// tenantState is all that the tenants' part depends on.
type tenantState struct {
	clusters []netip.Prefix               // the pod network
	bridge   string                       // that local pods are attached to
	local    map[netip.Addr]localpods.Pod // this node's pods
	known    map[netip.Addr]localpods.Pod // what the server told
}

// tenantRules makes the tenants' part.
type tenantRules struct {
	*table
	all map[netip.Addr]localpods.Pod
}

// forwardChain is where packets come in.
const forwardChain = prefix + "forward"

// render returns the part.
func (s tenantState) render() *table {
	r := &tenantRules{table: newTable(), all: map[netip.Addr]localpods.Pod{}}
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

	for _, f := range families {
		var ranges []string
		for _, c := range s.clusters {
			if f.has(c.Addr()) {
				ranges = append(ranges, c.Masked().String())
			}
		}
		r.intervals(prefix+"cluster-"+f.suffix, f.addrType, ranges)
	}
	r.members("system", func(p localpods.Pod) bool { return p.Tenant == space.System })
	r.members("shared", func(p localpods.Pod) bool { return p.Tenant == space.System && p.Shared })
	r.members("all", func(p localpods.Pod) bool { return p.Tenant != space.System })
	for _, t := range tenants {
		r.members("of-"+t, func(p localpods.Pod) bool { return p.Tenant == t })
	}
	for _, t := range tenants {
		r.judge("from-"+t, "daddr", "return", "of-"+t, "shared")
		r.judge("to-"+t, "saddr", "accept", "of-"+t, "system")
	}
	// No tenant is named system, so this is not the chain of one.
	var toSystem []string
	for _, f := range families {
		toSystem = append(toSystem, fmt.Sprintf("%s saddr @%sall-%s drop", f.match, prefix, f.suffix))
	}
	r.chains[prefix+"to-"+space.System] = nftChain{rules: toSystem}
	if s.bridge != "" {
		s.unknown(r)
	}
	s.forward(r, len(tenants) > 0)
	return r.table
}

// judge adds a chain that judges by the other side's address: members of the
// sets are allowed, the rest of the pod network is not.
func (r *tenantRules) judge(name, side, verdict string, sets ...string) {
	var c nftChain
	for _, f := range families {
		for _, set := range sets {
			c.rules = append(c.rules, fmt.Sprintf("%s %s @%s%s-%s %s", f.match, side, prefix, set, f.suffix, verdict))
		}
		c.rules = append(c.rules, fmt.Sprintf("%s %s @%scluster-%s drop", f.match, side, prefix, f.suffix))
	}
	r.chains[prefix+name] = c
}

// unknown judges what goes to the bridge and to no pod that is known: one that
// was attached a moment ago, or many at once (broadcast, multicast, and the
// link-local addresses that pods have even where the pod network has no IPv6).
func (s tenantState) unknown(r *tenantRules) {
	c := nftChain{rules: []string{neighbours}}
	for _, f := range families {
		c.rules = append(c.rules,
			fmt.Sprintf("%s saddr @%ssystem-%s accept", f.match, prefix, f.suffix),
			fmt.Sprintf("%s saddr @%scluster-%s drop", f.match, prefix, f.suffix))
	}
	c.rules = append(c.rules, fmt.Sprintf("iifname %q drop", s.bridge))
	r.chains[prefix+"unknown"] = c
}

// forward adds the base chain, and the maps by which it finds the others.
func (s tenantState) forward(r *tenantRules, tenants bool) {
	c := nftChain{priority: "filter-10", rules: []string{"ct state established,related accept"}}
	for _, f := range families {
		sources, targets := prefix+"sources-"+f.suffix, prefix+"targets-"+f.suffix
		r.verdicts(sources, f.addrType)
		r.verdicts(targets, f.addrType)
		for addr, p := range s.local {
			switch {
			case !f.has(addr) || !valid(p):
			case p.Tenant != space.System:
				r.maps[sources].elements[addr.String()] = "jump " + prefix + "from-" + p.Tenant
				r.maps[targets].elements[addr.String()] = "goto " + prefix + "to-" + p.Tenant
			case p.Shared:
				r.maps[targets].elements[addr.String()] = "accept"
			default:
				r.maps[targets].elements[addr.String()] = "goto " + prefix + "to-" + space.System
			}
		}
		c.rules = append(c.rules,
			fmt.Sprintf("%s saddr vmap @%s", f.match, sources),
			fmt.Sprintf("%s daddr vmap @%s", f.match, targets))
	}
	if tenants && s.bridge != "" {
		c.rules = append(c.rules, fmt.Sprintf("oifname %q jump %sunknown", s.bridge, prefix))
	}
	r.chains[forwardChain] = c
}

// members adds the set of the addresses that member picks, for each family.
func (r *tenantRules) members(name string, member func(localpods.Pod) bool) {
	for _, f := range families {
		set := prefix + name + "-" + f.suffix
		r.set(set, f.addrType)
		for addr, p := range r.all {
			if f.has(addr) && member(p) {
				r.sets[set].elements[addr.String()] = true
			}
		}
	}
}

// valid guards the rules: a tenant's name becomes part of them.
func valid(p localpods.Pod) bool {
	return p.Tenant == space.System || space.ValidateTenant(p.Tenant) == nil
}
