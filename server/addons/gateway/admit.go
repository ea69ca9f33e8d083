package gateway

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// admit makes the rules of a route, and says why parents do not accept it. If the steps come to an end in it, it has
// done nothing.
func (r *resolver) admit(t *route, c *compiled) {
	refused := c.refusal()
	t.refuse(refused)
	if p := r.room(t, c); p.is() {
		t.refuse(p)
		return
	}
	if c.whole.is() { // its hostnames may be none
		return
	}
	for _, host := range t.places.hosts {
		if !r.verdict(host).is() {
			r.secure(t, host)
			r.bytes += c.size
			r.rules(t, c, host)
		}
	}
	for _, p := range t.parents {
		r.judgeHosts(t, p)
	}
}

// room says why there is no room for the rules of a route.
func (r *resolver) room(t *route, c *compiled) problem {
	hosts := len(r.verdicts)
	for _, host := range t.places.hosts {
		if _, ok := r.verdicts[host]; !ok {
			hosts++
		}
	}
	count, size := len(t.places.hosts)*len(c.lines), len(t.places.hosts)*c.size
	switch {
	case hosts > mostHosts:
		return problemf(reasonBounds, "the routes of this space have more than %d hosts together; this one is "+
			"left out", mostHosts)
	case len(r.out.Rules)+count > mostRules || r.bytes+size > mostBytes:
		return problemf(reasonBounds, "the routes of this space have more than %d matches of hosts together, or "+
			"more than %d MiB; this one is left out", mostRules, mostBytes>>20)
	case !r.spend(count):
		return tooMany()
	}
	return problem{}
}

// rules has requests for a host go where the route says.
func (r *resolver) rules(t *route, c *compiled, host string) {
	at := t.places.at[host]
	if len(c.lines) == 0 || !at.http && at.secure == nil && !at.passed {
		return
	}
	for i := range c.lines {
		line := &c.lines[i]
		path := line.path
		if !at.passed {
			path.Scheme = at.scheme()
		}
		r.out.Rules = append(r.out.Rules, Rule{Host: host, Path: path, To: line.to, Kind: t.kind, Route: t.name,
			Created: t.object.GetCreationTimestamp()})
	}
	if at.secure != nil {
		r.offer(host, at.secure)
	}
}

// judgeHosts says which hosts of a parent the space does not get.
func (r *resolver) judgeHosts(t *route, p *parent) {
	if p.refused.is() {
		return
	}
	if !p.served {
		p.said = append(p.said, problemf(gatewayv1.RouteReasonPending, "none of its listeners takes requests for it "+
			"so far: see the conditions of the Gateway"))
	}
	var not []problem
	got := false
	seen := map[string]bool{}
	for _, host := range p.hosts {
		if seen[host] {
			continue
		}
		seen[host] = true
		v, lost := r.verdict(host), t.places.at[host].lost
		switch {
		case v.is():
			not = append(not, problem{v.reason, "no requests for " + spelled(host) + " are taken: " + v.message})
		case !lost.is():
			got = true
		case p.plain[host]:
			got = true
			p.said = append(p.said, lost)
		default:
			not = append(not, lost)
		}
	}
	switch {
	case len(not) == 0:
	case got:
		p.said = append(p.said, problem{not[0].reason, several(not)})
	default:
		p.refused = problem{not[0].reason, several(not)}
	}
}

// verdict says why the space gets no requests for a host.
func (r *resolver) verdict(host string) problem {
	v, ok := r.verdicts[host]
	if !ok {
		v.reason, v.message = r.Host(host)
		r.verdicts[host] = v
	}
	return v
}

func spelled(host string) string {
	if host == anyHost {
		return "every host"
	}
	return "host " + quote(host)
}
