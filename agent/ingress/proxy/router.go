package proxy

import (
	"errors"
	"iter"
	"net/http"
	"path"
	"strings"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// host is an IngressHost in a form that is quick to search: a host may have thousands of paths.
type host struct {
	tenant      *tenant
	certificate string
	// deep is whether a wildcard is for more than one label, bare whether the host has no paths, and opens whether it
	// has something for connections with TLS that are opened here.
	deep, bare, opens bool
	// passes has connections with TLS, which are not opened; nil for none.
	passes *route
	// exact has the routes of exact paths.
	exact map[string]routes
	// prefixes has those of the others. Its deepest match is the longest prefix.
	prefixes element
}

// element is a place in the tree of prefixes, one level an element of a path.
type element struct {
	// above is nil for the root.
	above    *element
	children map[string]*element
	// routes are those of the prefix that ends here.
	routes routes
}

// routes are those of one path, in the order in which they are tried. Only the last may have no conditions.
type routes []*route

// newHost sorts the paths of a host. The server sends longer ones before shorter ones, and of two
// that are alike the exact one first, so the first match is what find finds: that of the exact path,
// or else of the longest prefix.
func newHost(told *joinapi.IngressHost, of *tenant) *host {
	h := &host{tenant: of, certificate: told.Certificate, exact: map[string]routes{}, deep: told.Deep,
		bare: len(told.Paths) == 0, opens: told.Certificate != ""}
	if told.Passthrough != nil {
		h.passes = &route{parts: newParts(told.Passthrough.Split)}
	}
	for i := range told.Paths {
		p := &told.Paths[i]
		h.opens = h.opens || p.Scheme != "http"
		if p.Exact {
			h.exact[p.Path] = h.exact[p.Path].with(p)
		} else {
			e := h.prefixes.at(strings.Trim(p.Path, "/"))
			e.routes = e.routes.with(p)
		}
	}
	return h
}

// with has one more route, unless no request is left for it.
func (r routes) with(told *joinapi.IngressPath) routes {
	if n := len(r); n > 0 && r[n-1].conditions == nil {
		return r
	}
	return append(r, newRoute(told))
}

// match returns the first route that has a request, or nil, also when too many were tried.
func (r routes) match(a *asked) *route {
	for _, route := range r {
		if a.exhausted() {
			return nil
		}
		if route.conditions.match(a) {
			return route
		}
		a.tried++
	}
	return nil
}

// at returns the place of a prefix.
func (e *element) at(rest string) *element {
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		child := e.children[name]
		if child == nil {
			child = &element{above: e}
			if e.children == nil {
				e.children = map[string]*element{}
			}
			e.children[name] = child
		}
		e = child
	}
	return e
}

// find returns the route of the longest prefix that has a request with this path, or nil.
func (e *element) find(rest string, a *asked) *route {
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		child := e.children[name]
		if child == nil {
			break
		}
		e = child
	}
	for ; e != nil && !a.exhausted(); e = e.above {
		if route := e.routes.match(a); route != nil {
			return route
		}
	}
	return nil
}

var (
	errNoRoute       = errors.New("no Ingress has this path of the host")
	errTooManyRoutes = errors.New("too many matches were tried for this path of the host")
)

// find returns the route that has a request.
func (h *host) find(r *http.Request) (*route, error) {
	a := asked{Request: r}
	requested := r.URL.Path
	if requested == "" { // of "GET http://host"
		requested = "/"
	}
	cleaned := path.Clean(requested)
	whole := cleaned
	if strings.HasSuffix(requested, "/") && cleaned != "/" {
		whole += "/" // an exact path differs by it
	}
	found := h.exact[whole].match(&a)
	if found == nil {
		found = h.prefixes.find(cleaned[1:], &a)
	}
	switch {
	case found != nil:
		return found, nil
	case a.exhausted(): // another one may be meant
		return nil, errTooManyRoutes
	}
	return nil, errNoRoute
}

// named yields the hosts with a name as hostName returns it, the most specific first.
func (s *snapshot) named(name string) iter.Seq[*host] {
	return func(yield func(*host) bool) {
		if h := s.hosts[name]; h != nil && !yield(h) {
			return
		}
		for w := range wildcards(name) {
			h := s.hosts[w]
			if h != nil && (h.deep || w[1:] == name[strings.IndexByte(name, '.'):]) && !yield(h) {
				return
			}
		}
		if h := s.hosts[""]; h != nil && name != "" {
			yield(h)
		}
	}
}

// mostName is how long the name of a host is.
const mostName = 253

// wildcards yields those that cover a name, the most specific first.
func wildcards(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if strings.HasPrefix(name, ".") || len(name) > mostName {
			return // it is no name, and may be long
		}
		for rest := name; ; {
			dot := strings.IndexByte(rest, '.')
			if dot < 0 || !yield("*"+rest[dot:]) {
				return
			}
			rest = rest[dot+1:]
		}
	}
}

// host returns the host that has requests for a name as hostName returns it, or nil. It is of the tenant of the most
// specific one: nobody else has requests for a name that a tenant took, though there be nothing for them yet.
func (s *snapshot) host(name string) *host {
	var first *host
	for h := range s.named(name) {
		if first == nil {
			first = h
		}
		if !h.bare && h.tenant == first.tenant {
			return h
		}
	}
	return nil
}

// hostName is the name of a host in the form that lines have, from a Host header.
func hostName(header string) string {
	name := header
	if strings.HasPrefix(name, "[") {
		name, _, _ = strings.Cut(name[1:], "]")
	} else if colon := strings.IndexByte(name, ':'); colon >= 0 && colon == strings.LastIndexByte(name, ':') {
		name = name[:colon]
	}
	return strings.ToLower(strings.TrimSuffix(name, "."))
}
