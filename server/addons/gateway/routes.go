package gateway

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Bounds of a route, as the CRDs say.
const (
	mostParents      = 32
	mostHostnames    = 16
	mostTLSHostnames = 1024
)

// route is one that is looked at, of any kind.
type route struct {
	kind      string
	object    metav1.Object
	name      types.NamespacedName
	refs      []gatewayv1.ParentReference
	hostnames []gatewayv1.Hostname
	rules     rules
	present   []gatewayv1.RouteParentStatus
	parents   []*parent
	// said are things to know of a route that is accepted.
	said []problem
	// places are the hosts that it has with listeners that are accepted.
	places places
}

// parent is a Gateway of this controller that a route names.
type parent struct {
	ref     *gatewayv1.ParentReference
	gateway *gateway
	// met are the listeners that the route is attached to, hosts what it has with those that are accepted, and served
	// says that one of these takes requests.
	met    []meeting
	hosts  []string
	served bool
	// plain are those of the hosts that have requests without TLS; only where TLSRoutes may take others.
	plain map[string]bool
	// refused says why the route is not accepted.
	refused problem
	said    []problem
	// present are the conditions that the route has for it.
	present []metav1.Condition
}

// meeting is a listener and the hosts that a route has in common with it.
type meeting struct {
	listener *listener
	hosts    []string
}

// places are hosts in the order in which they were found, with their listeners.
type places struct {
	hosts []string
	at    map[string]*place
}

// place is where a host is found. It may be with listeners only that lack a certificate.
type place struct {
	http bool
	// secure is the best of the listeners with HTTPS and a certificate.
	secure *offer
	// passed says that there is a listener with TLS, secured that there is one at its port, and lost why others have
	// the connections of that port.
	passed, secured bool
	lost            problem
}

func (p *places) add(host string, o offer) {
	if p.at == nil {
		p.at = map[string]*place{}
	}
	at := p.at[host]
	if at == nil {
		at = &place{}
		p.at[host] = at
		p.hosts = append(p.hosts, host)
	}
	at.secured = at.secured || o.listener.scheme != schemeHTTP
	switch {
	case !o.listener.served():
	case o.listener.scheme == schemeHTTP:
		at.http = true
	case o.listener.scheme == schemeTLS:
		at.passed = true
	case at.secure == nil || o.better(at.secure):
		at.secure = &o
	}
}

// scheme is the only scheme of a host, or "" for both.
func (p *place) scheme() string {
	switch {
	case p.secure == nil:
		return schemeHTTP
	case !p.http:
		return schemeHTTPS
	}
	return ""
}

// lose has others have the connections with TLS.
func (p *place) lose(why problem) { p.secure, p.passed, p.secured, p.lost = nil, false, false, why }

// mostHostnames is how many hostnames a route has.
func (t *route) mostHostnames() int {
	if t.kind == KindTLS {
		return mostTLSHostnames
	}
	return mostHostnames
}

// route resolves a route.
func (r *resolver) route(t *route) {
	r.out.Entries(t.kind)[t.name] = nil
	full := r.looked >= mostRoutes || r.over()
	most := mostParents
	if full {
		most = 1
	}
	if r.parentsOf(t, most); len(t.parents) == 0 {
		return
	}
	r.looked++
	var c *compiled
	if !full && r.spend(1+costOfEntry*len(t.parents)) {
		c = r.compile(t)
		for _, p := range t.parents {
			r.attach(t, p)
		}
		if !r.over() { // else what was found so far may be wrong
			r.admit(t, c)
		}
	}
	if full || r.over() {
		r.leaveOut(t)
		return
	}
	r.count(t)
	r.statusOfRoute(t, c)
}

// refuse has no parent accept the route.
func (t *route) refuse(p problem) {
	for _, at := range t.parents {
		at.refused = at.refused.or(p)
	}
}

// parentsOf finds the first of the Gateways that a route names.
func (r *resolver) parentsOf(t *route, most int) {
	refs := t.refs
	if len(refs) > mostParents {
		refs = refs[:mostParents]
		t.said = append(t.said, unsupported("parentRefs after the first %d are "+
			"left out", mostParents))
	}
	type key struct {
		gateway *gateway
		section gatewayv1.SectionName
		port    gatewayv1.PortNumber
	}
	seen := map[key]bool{}
	for i := range refs {
		if len(t.parents) == most {
			return
		}
		ref := &refs[i]
		if ref.Group != nil && *ref.Group != gatewayv1.GroupName || ref.Kind != nil && *ref.Kind != kindGateway {
			continue
		}
		namespace, ok := r.namespace(t.object, ref.Namespace)
		g := r.gateways[types.NamespacedName{Namespace: namespace, Name: string(ref.Name)}]
		if !ok || g == nil || ref.SectionName != nil && len(*ref.SectionName) > mostName {
			continue
		}
		k := key{gateway: g}
		if ref.SectionName != nil {
			k.section = *ref.SectionName
		}
		if ref.Port != nil {
			k.port = *ref.Port
		}
		if !seen[k] {
			seen[k] = true
			t.parents = append(t.parents, &parent{ref: ref, gateway: g})
		}
	}
}

// attach finds the listeners of a parent that take the route.
func (r *resolver) attach(t *route, p *parent) {
	section, port := p.ref.SectionName, p.ref.Port
	selected, allowed := false, false
	for _, l := range p.gateway.listeners {
		if !r.spend(1) {
			return
		}
		if section != nil && *section != "" && *section != l.spec.Name || port != nil && *port != l.spec.Port {
			continue
		}
		selected = true
		if !r.takes(p.gateway, l, t.kind, t.name.Namespace) {
			continue
		}
		allowed = true
		if hosts, any := r.meet(t, l); any {
			p.met = append(p.met, meeting{l, hosts})
		}
	}
	switch {
	case len(p.met) > 0:
		if p.refused = r.conflict(t, p); !p.refused.is() {
			r.settle(t, p)
		}
	case !selected:
		p.refused = problemf(gatewayv1.RouteReasonNoMatchingParent, "no listener is what the parentRef names")
	case !allowed:
		p.refused = problemf(gatewayv1.RouteReasonNotAllowedByListeners, "no listener takes %ss of this "+
			"namespace", t.kind)
	default:
		p.refused = problemf(gatewayv1.RouteReasonNoMatchingListenerHostname, "no hostname of the route is one of a "+
			"listener")
	}
}

// meet finds the hosts that a route and a listener have in common, and reports whether there are any.
func (r *resolver) meet(t *route, l *listener) (hosts []string, any bool) {
	if len(t.hostnames) > t.mostHostnames() {
		return nil, true // compile refuses it
	}
	if len(t.hostnames) == 0 {
		return []string{l.host}, true
	}
	for _, hostname := range t.hostnames {
		if !r.spend(1) {
			break
		}
		if hostname == "" || len(hostname) > mostName {
			return nil, true // compile refuses it
		}
		if host, ok := intersection(l.host, string(hostname)); ok {
			hosts = append(hosts, host)
		}
	}
	return hosts, len(hosts) > 0
}

// settle takes down the hosts of a route with listeners that are accepted.
func (r *resolver) settle(t *route, p *parent) {
	for _, m := range p.met {
		for _, host := range m.hosts {
			if m.listener.live && r.belongs(p.gateway, m.listener, host) {
				t.places.add(host, offer{p.gateway, m.listener})
				p.hosts = append(p.hosts, host)
				if m.listener.scheme == schemeHTTP && len(r.TLSRoutes) > 0 {
					if p.plain == nil {
						p.plain = map[string]bool{}
					}
					p.plain[host] = true
				}
				p.served = p.served || m.listener.served()
			}
		}
	}
}

// belongs reports whether requests for a host are of a listener, and not of another one of its Gateway that is more
// specific.
func (r *resolver) belongs(g *gateway, l *listener, host string) bool {
	if of := g.live[liveKey(l.scheme, host)]; of != nil {
		return of == l
	}
	for w := range wider(host) {
		if !r.spend(1) {
			return false
		}
		if of := g.live[liveKey(l.scheme, w)]; of != nil {
			return of == l
		}
	}
	return false
}

// count counts a route for the listeners that it is attached to.
func (r *resolver) count(t *route) {
	counted := map[*listener]bool{}
	for _, p := range t.parents {
		if p.refused.is() {
			continue
		}
		for _, m := range p.met {
			r.occupy(t.kind, m)
			if !counted[m.listener] {
				counted[m.listener] = true
				m.listener.attached++
			}
		}
	}
}
