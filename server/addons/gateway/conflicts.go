package gateway

import (
	"strings"
)

// reasonConflict is that of routes of two kinds for the same host, for which the Gateway API has none.
const reasonConflict = "HostnameConflict"

// occupied are the hosts of a listener that routes of one kind are attached for.
type occupied struct {
	hosts map[string]bool
	// above has the names that one of the hosts is below.
	above map[string]bool
}

// conflict says which listener has a route of the other kind for one of the hosts already. It is an older one, as
// routes are looked at by age.
func (r *resolver) conflict(t *route, p *parent) problem {
	var other string
	switch t.kind {
	case KindHTTP:
		other = KindGRPC
	case KindGRPC:
		other = KindHTTP
	default: // no other kind is for its listeners
		return problem{}
	}
	for _, m := range p.met {
		o := m.listener.occupied[other]
		if o == nil {
			continue
		}
		for _, host := range m.hosts {
			if r.meets(o, host) {
				return problemf(reasonConflict, "listener %s has an older %s for %s; one listener has routes of one "+
					"kind for a host", m.listener.spec.Name, other, spelled(host))
			}
		}
	}
	return problem{}
}

// meets reports whether a host has names in common with those that are occupied.
func (r *resolver) meets(o *occupied, host string) bool {
	if host == anyHost || o.hosts[host] {
		return true
	}
	if below, ok := strings.CutPrefix(host, "*."); ok && o.above[below] {
		return true
	}
	for wide := range wider(host) {
		if !r.spend(1) {
			return false
		}
		if o.hosts[wide] {
			return true
		}
	}
	return false
}

// occupy takes down for which hosts a listener has a route of a kind.
func (r *resolver) occupy(kind string, m meeting) {
	if kind == KindTLS || len(r.Routes) == 0 || len(r.GRPCRoutes) == 0 {
		return // there is nothing to conflict with
	}
	o := m.listener.occupied[kind]
	if o == nil {
		if o = (&occupied{map[string]bool{}, map[string]bool{}}); m.listener.occupied == nil {
			m.listener.occupied = map[string]*occupied{}
		}
		m.listener.occupied[kind] = o
	}
	for _, host := range m.hosts {
		if o.hosts[host] || !r.spend(1) {
			continue
		}
		o.hosts[host] = true
		for _, rest, more := strings.Cut(host, "."); more; _, rest, more = strings.Cut(rest, ".") {
			if !r.spend(2) {
				return
			}
			o.above[rest] = true
		}
	}
}
