package dns

import (
	"context"
	"math/rand/v2"
	"net/netip"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/upstream"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"
)

// maxAliases bounds a chain of external names, which may form a loop.
const maxAliases = 8

// aliasDepth is the context key of the length of the chain so far.
type aliasDepth struct{}

// handler is the CoreDNS plugin that answers for the cluster and passes every
// other name on.
type handler struct {
	next  plugin.Handler
	store Store
	zone  *zone
	// cidrs are the ranges whose reverse names never leave the node, and so are those that
	// further returns; it may be nil.
	cidrs   []netip.Prefix
	further func() []netip.Prefix
}

// Name implements plugin.Handler.
func (h *handler) Name() string { return "a4s" }

// ServeDNS implements plugin.Handler.
func (h *handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	state := request.Request{W: w, Req: r}
	name, qtype := state.Name(), state.QType()
	view, known := h.view(w)
	if !known {
		if !h.store.Synced() {
			return dns.RcodeServerFailure, nil // it may become known
		}
		return dns.RcodeRefused, nil
	}
	if dns.IsSubDomain(h.zone.name, name) {
		if !h.store.Synced() {
			return dns.RcodeServerFailure, nil
		}
		if qtype == dns.TypeAXFR || qtype == dns.TypeIXFR {
			return dns.RcodeRefused, nil
		}
		found, exists := h.zone.lookup(view, name)
		return h.answer(ctx, state, h.zone.name, found, exists)
	}
	if rev, ok := parseReverse(name); ok {
		if apex, ours := h.reverseZone(rev); ours {
			if !h.store.Synced() {
				return dns.RcodeServerFailure, nil
			}
			return h.answerReverse(ctx, state, view, apex, rev)
		}
		// An endpoint may have an address outside the cluster's ranges, such
		// as a node's; it is ours only as far as it has a name.
		if qtype == dns.TypePTR && rev.full() && h.store.Synced() {
			if found, ok := h.zone.reverse(view, rev.prefix.Addr()); ok {
				return h.answer(ctx, state, name, found, true)
			}
		}
	}
	return plugin.NextOrFailure(h.Name(), h.next, ctx, w, r)
}

// answerReverse answers a name of the reverse zone apex.
func (h *handler) answerReverse(
	ctx context.Context, state request.Request, view Records, apex string, rev reverseName,
) (int, error) {
	found, exists := node{}, !rev.below // prefixes of addresses exist, as names without records
	if rev.full() {
		found, exists = h.zone.reverse(view, rev.prefix.Addr())
	}
	if state.Name() == apex {
		found.apex, exists = true, true
	}
	return h.answer(ctx, state, apex, found, exists)
}

func (h *handler) reverseZone(rev reverseName) (string, bool) {
	for _, c := range h.cidrs {
		if apex, ok := rev.zone(c); ok {
			return apex, true
		}
	}
	if h.further == nil {
		return "", false
	}
	for _, c := range h.further() {
		if apex, ok := rev.zone(c.Masked()); ok {
			return apex, true
		}
	}
	return "", false
}

// view returns what the client behind w may see.
func (h *handler) view(w dns.ResponseWriter) (Records, bool) {
	return h.store.View(sourceOf(w.RemoteAddr()))
}

// answer writes the answer for the node that was found.
func (h *handler) answer(
	ctx context.Context, state request.Request, apex string, found node, exists bool,
) (int, error) {
	m := new(dns.Msg)
	m.SetReply(state.Req)
	m.Authoritative, m.RecursionAvailable = true, true
	if !exists {
		m.Rcode, found = dns.RcodeNameError, node{}
	}
	h.fill(m, state, apex, found)
	if found.alias != "" && len(m.Answer) > 0 && state.QType() != dns.TypeCNAME {
		if err := h.follow(ctx, m, state, found.alias); err != nil {
			return dns.RcodeServerFailure, err
		}
	} else if len(m.Answer) == 0 {
		m.Ns = []dns.RR{h.zone.soa(apex)}
	}
	if err := state.W.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, err
	}
	return dns.RcodeSuccess, nil // written: CoreDNS would answer other codes again
}

// fill puts the records of the asked type into m.
func (h *handler) fill(m *dns.Msg, state request.Request, apex string, found node) {
	name, qtype := state.QName(), state.QType() // the asker's own spelling
	if found.alias != "" {
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: header(name, dns.TypeCNAME), Target: found.alias})
		return
	}
	switch qtype {
	case dns.TypeA, dns.TypeAAAA:
		m.Answer = addresses(name, qtype, found.addrs)
		// Clients take the first one: spread them.
		rand.Shuffle(len(m.Answer), func(i, j int) { m.Answer[i], m.Answer[j] = m.Answer[j], m.Answer[i] })
	case dns.TypeSRV:
		seen := map[string]bool{}
		for _, t := range found.targets {
			m.Answer = append(m.Answer,
				&dns.SRV{Hdr: header(name, qtype), Priority: 0, Weight: 100, Port: t.port, Target: t.host})
			if !seen[t.host] {
				seen[t.host] = true
				m.Extra = append(m.Extra, addresses(t.host, dns.TypeA, t.addrs)...)
				m.Extra = append(m.Extra, addresses(t.host, dns.TypeAAAA, t.addrs)...)
			}
		}
	case dns.TypePTR:
		for _, p := range found.pointer {
			m.Answer = append(m.Answer, &dns.PTR{Hdr: header(name, qtype), Ptr: p})
		}
	case dns.TypeTXT:
		if found.text != "" {
			m.Answer = append(m.Answer, &dns.TXT{Hdr: header(name, qtype), Txt: []string{found.text}})
		}
	case dns.TypeSOA:
		if found.apex {
			m.Answer = append(m.Answer, h.zone.soa(apex))
		}
	case dns.TypeNS:
		if found.apex {
			server, own := h.zone.serverName(), []netip.Addr{h.zone.server}
			m.Answer = append(m.Answer, &dns.NS{Hdr: header(name, qtype), Ns: server})
			m.Extra = append(addresses(server, dns.TypeA, own), addresses(server, dns.TypeAAAA, own)...)
		}
	}
}

// follow appends what the alias itself resolves to: clients of a recursive
// server expect the whole chain. The chain's end decides the answer's code.
func (h *handler) follow(ctx context.Context, m *dns.Msg, state request.Request, alias string) error {
	depth, _ := ctx.Value(aliasDepth{}).(int)
	if depth >= maxAliases {
		m.Rcode = dns.RcodeServerFailure
		return nil
	}
	ctx = context.WithValue(ctx, aliasDepth{}, depth+1)
	end, err := upstream.New().Lookup(ctx, state, alias, state.QType())
	if err != nil {
		return err
	}
	if end == nil { // the chain wrote nothing
		m.Rcode = dns.RcodeServerFailure
		return nil
	}
	m.Rcode = end.Rcode
	m.Truncated = end.Truncated
	m.Answer = append(m.Answer, end.Answer...)
	m.Ns = append(m.Ns, end.Ns...)
	return nil
}

// addresses returns the records of type qtype for those of addrs that have it.
func addresses(name string, qtype uint16, addrs []netip.Addr) []dns.RR {
	var out []dns.RR
	for _, a := range addrs {
		switch {
		case qtype == dns.TypeA && a.Is4():
			out = append(out, &dns.A{Hdr: header(name, qtype), A: a.AsSlice()})
		case qtype == dns.TypeAAAA && a.Is6():
			out = append(out, &dns.AAAA{Hdr: header(name, qtype), AAAA: a.AsSlice()})
		}
	}
	return out
}
