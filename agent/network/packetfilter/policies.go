package packetfilter

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/internal/netpolicy"
)

const (
	// patience is how long a pod is cut off that the server does not speak of,
	// although it speaks, and forsaken how long if it does not speak at all:
	// what it needs to come back may be in such a pod.
	patience = 10 * time.Second
	forsaken = time.Minute
	// lookAgain is how often such pods are looked at after that.
	lookAgain = time.Second
)

// policyState is all that the policies' part depends on.
type policyState struct {
	known    *knowledge
	owners   map[netip.Addr]localpods.Owner
	clusters []netip.Prefix // the pod network
	bridge   string         // that local pods are attached to
	// since says when an address was first seen; those of pods that nobody
	// speaks of are let go with time.
	since map[netip.Addr]time.Time
	heard time.Time // of the server, last
	now   time.Time
	// free reports whether the pods of a namespace are of a partition without policies; nil
	// means that none are.
	free func(namespace string) bool
}

// families are the variants that everything with addresses has.
var families = [...]family{
	{"ip", "ipv4", "ipv4_addr", "4", 32, []string{"169.254.0.0/16"}, []string{"224.0.0.0/4", "255.255.255.255"}},
	{"ip6", "ipv6", "ipv6_addr", "6", 128, []string{"fe80::/10"}, []string{"ff00::/8"}},
}

type family struct {
	match, proto, addrType, suffix string
	bits                           int
	local, many                    []string // not given to pods by us, and not to one alone
}

func (f family) has(a netip.Addr) bool { return a.BitLen() == f.bits }

// neighbours have to find each other, and conntrack takes no part.
const neighbours = "icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, " +
	"nd-neighbor-advert } accept"

// rendering makes the policies' part.
type rendering struct {
	policyState
	*table
}

// direction is one half of the part.
type direction struct {
	name, letter, priority string
	side, other            string // of the packet: that of our pod, and the peer's
	device                 string // how the pod's device is matched
	policies               func(*netpolicy.Pod) []string
	rules                  func(*netpolicy.Policy) []netpolicy.Rule
}

// Two base chains: what one accepts, the other judges still.
var directions = [...]direction{
	{"egress", "e", "filter-9", "saddr", "daddr", "iifname",
		func(p *netpolicy.Pod) []string {
			return p.Egress
		}, func(p *netpolicy.Policy) []netpolicy.Rule { return p.Egress }},
	{"ingress", "i", "filter-8", "daddr", "saddr", "oifname",
		func(p *netpolicy.Pod) []string {
			return p.Ingress
		}, func(p *netpolicy.Policy) []netpolicy.Rule { return p.Ingress }},
}

// render returns the part, the addresses that are let go although the server
// does not speak of them, and when to look again, if that is not zero.
func (s policyState) render() (t *table, unknown []netip.Addr, again time.Duration) {
	r := &rendering{policyState: s, table: newTable()}
	for _, f := range families {
		r.set("judged-"+f.suffix, f.addrType)
		r.set("self-"+f.suffix, f.addrType+" . "+f.addrType)
		r.intervals("local-"+f.suffix, f.addrType, f.local)
		r.intervals("many-"+f.suffix, f.addrType, f.many)
		for _, c := range s.clusters {
			if f.has(c.Addr()) {
				r.sets["local-"+f.suffix].elements[c.Masked().String()] = true
			}
		}
		for _, d := range directions {
			r.verdicts(d.name+"-"+f.suffix, f.addrType)
		}
	}
	isolated := false
	for addr, owner := range s.owners {
		p := s.known.pods[owner.Namespace+"/"+owner.Name]
		if p == nil && s.free != nil && s.free(owner.Namespace) {
			p = &netpolicy.Pod{}
		}
		if p == nil || p.UID != "" && owner.UID != "" && p.UID != owner.UID {
			since := s.since[addr]
			if now := s.now.Sub(since); now < patience || s.heard.Sub(since) < patience && now < forsaken {
				if left := max(patience-now, lookAgain); again == 0 || left < again {
					again = left
				}
				continue
			}
			unknown = append(unknown, addr)
			p = &netpolicy.Pod{}
		}
		isolated = r.pod(addr, p) || isolated
	}
	for _, d := range directions {
		r.base(d, isolated)
	}
	slices.SortFunc(unknown, netip.Addr.Compare)
	return r.table, unknown, again
}

// base writes the chain that packets come in by.
func (r *rendering) base(d direction, isolated bool) {
	c := nftChain{priority: d.priority, rules: []string{
		"ct state established,related accept",
		neighbours,
	}}
	for _, f := range families {
		c.rules = append(c.rules, fmt.Sprintf("%s saddr . %s daddr @self-%s accept", f.match, f.match, f.suffix))
		if r.bridge != "" {
			// A pod that nobody spoke of yet, or the address that a pod has
			// from nobody.
			c.rules = append(c.rules, fmt.Sprintf("%s %q %s %s @local-%s %s %s != @judged-%s drop", d.device, r.bridge,
				f.match, d.side, f.suffix, f.match, d.side, f.suffix))
			if isolated && d.name == "ingress" {
				// Packets for many would reach those that must not have them.
				c.rules = append(c.rules,
					fmt.Sprintf("%s %q %s daddr @many-%s drop", d.device, r.bridge, f.match, f.suffix))
			}
		}
		c.rules = append(c.rules, fmt.Sprintf("%s %s vmap @%s-%s", f.match, d.side, d.name, f.suffix))
	}
	r.chains[d.name] = c
}

// pod writes what is for one address, and reports whether it is isolated.
func (r *rendering) pod(addr netip.Addr, p *netpolicy.Pod) (isolated bool) {
	f := families[0]
	if !f.has(addr) {
		f = families[1]
	}
	r.sets["judged-"+f.suffix].elements[addr.String()] = true
	for _, d := range directions {
		ids := d.policies(p)
		if len(ids) == 0 {
			continue
		}
		isolated = true
		r.maps[d.name+"-"+f.suffix].elements[addr.String()] = "goto " + r.profile(d, ids)
	}
	if isolated {
		r.sets["self-"+f.suffix].elements[addr.String()+" . "+addr.String()] = true
	}
	return isolated
}

// profile writes the chain that all pods under the same policies share.
func (r *rendering) profile(d direction, ids []string) string {
	name := d.letter + "-pods-" + hash(strings.Join(ids, " "))
	if has(r.chains, name) {
		return name
	}
	c := nftChain{}
	for _, id := range ids {
		if p := r.known.policies[id]; p != nil {
			c.rules = append(c.rules, "jump "+r.policy(d, p))
		}
	}
	c.rules = append(c.rules, "drop")
	r.chains[name] = c
	return name
}

// policy writes the chain that accepts what one policy allows.
func (r *rendering) policy(d direction, p *netpolicy.Policy) string {
	name := d.letter + "-policy-" + hash(p.ID)
	if has(r.chains, name) {
		return name
	}
	c := nftChain{comment: comment(p.ID)}
	for _, rule := range d.rules(p) {
		for _, line := range r.rule(d, rule) {
			if !slices.Contains(c.rules, line) {
				c.rules = append(c.rules, line)
			}
		}
	}
	r.chains[name] = c
	return name
}

// rule writes one line for each pair of a way to match peers and one to match
// ports, where there are addresses, for each family.
func (r *rendering) rule(d direction, rule netpolicy.Rule) (lines []string) {
	for _, f := range families {
		var peers, ports []string
		switch {
		case rule.AnyPeer:
			peers = []string{""}
		default:
			if rule.Peers != "" {
				peers = append(peers, fmt.Sprintf("%s %s @%s", f.match, d.other, r.members(f, rule.Peers)))
			}
			if blocks := f.blocks(d.other, rule.Blocks); blocks != "" {
				peers = append(peers, blocks)
			}
		}
		switch {
		case rule.AnyPort:
			ports = []string{""}
		default:
			ports = portMatches(rule.Ports)
			for _, id := range rule.Named {
				ports = append(ports, fmt.Sprintf("%s daddr . meta l4proto . th dport @%s", f.match, r.members(f, id)))
			}
		}
		for _, peer := range peers {
			for _, port := range ports {
				lines = append(lines, strings.Join(strings.Fields(peer+" "+port+" accept"), " "))
			}
		}
	}
	return lines
}

// members writes a set, with the members of one family.
func (r *rendering) members(f family, id string) string {
	name := "set-" + hash(id) + "-" + f.suffix
	if has(r.sets, name) {
		return name
	}
	told := r.known.sets[id]
	if told == nil {
		told = &set{}
	}
	typ := f.addrType
	if told.endpoints {
		typ += " . inet_proto . inet_service"
	}
	r.set(name, typ)
	for m := range told.members {
		switch protocol := nftProtocols[m.Protocol]; {
		case !f.has(m.Addr) || m.Addr.Zone() != "":
		case !told.endpoints:
			r.sets[name].elements[m.Addr.String()] = true
		case protocol != "":
			r.sets[name].elements[m.Addr.String()+" . "+protocol+" . "+strconv.Itoa(int(m.Port))] = true
		}
	}
	return name
}

// blocks matches ranges of addresses.
func (f family) blocks(side string, ranges []netpolicy.Range) string {
	var parts []string
	for _, b := range ranges {
		switch {
		case !f.has(b.First) || !f.has(b.Last) || b.Last.Less(b.First) || b.First.Zone()+b.Last.Zone() != "":
		case !b.First.Prev().IsValid() && !b.Last.Next().IsValid():
			return "meta nfproto " + f.proto // every address there is
		case b.First == b.Last:
			parts = append(parts, b.First.String())
		default:
			parts = append(parts, b.First.String()+"-"+b.Last.String())
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return f.match + " " + side + " { " + strings.Join(parts, ", ") + " }"
}

var nftProtocols = map[string]string{"TCP": "tcp", "UDP": "udp", "SCTP": "sctp"}

// portMatches matches ports by number, one line a protocol.
func portMatches(ports []netpolicy.Ports) (lines []string) {
	byProtocol := map[string][]netpolicy.Ports{}
	all := map[string]bool{}
	for _, p := range ports {
		protocol := nftProtocols[p.Protocol]
		if protocol == "" {
			continue
		}
		byProtocol[protocol] = append(byProtocol[protocol], p)
		all[protocol] = all[protocol] || p.Last == 0
	}
	for _, protocol := range slices.Sorted(maps.Keys(byProtocol)) {
		if all[protocol] {
			lines = append(lines, "meta l4proto "+protocol)
			continue
		}
		list := byProtocol[protocol]
		slices.SortFunc(list, func(a, b netpolicy.Ports) int { return int(a.First) - int(b.First) })
		var parts []string
		for i := 0; i < len(list); { // the kernel takes no overlaps
			first, last := list[i].First, list[i].Last
			for i++; i < len(list) && int(list[i].First) <= int(last)+1; i++ {
				last = max(last, list[i].Last)
			}
			part := strconv.Itoa(int(first))
			if last > first {
				part += "-" + strconv.Itoa(int(last))
			}
			parts = append(parts, part)
		}
		lines = append(lines, protocol+" dport { "+strings.Join(parts, ", ")+" }")
	}
	return lines
}

// hash makes a part of a name that nft takes out of anything.
func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:10])
}

// comment makes s one that nft takes.
func comment(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("-./", r) {
			return r
		}
		return '_'
	}, s)
	return s[:min(len(s), 120)]
}
