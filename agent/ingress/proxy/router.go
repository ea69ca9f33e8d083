package proxy

import (
	"path"
	"strings"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// host is an IngressHost in a form that is quick to search: a host may have thousands of paths.
type host struct {
	tenant      *tenant
	certificate string
	// exact has the backends of exact paths.
	exact map[string]string
	// prefixes has those of the others. Its deepest match is the longest prefix.
	prefixes element
}

// element is a place in the tree of prefixes, one level an element of a path.
type element struct {
	// backend is that of the prefix that ends here.
	backend  string
	ends     bool
	children map[string]*element
}

// newHost sorts the paths of a host. The server sends longer ones before shorter ones, and of two
// that are alike the exact one first, so the first match is what find finds: the exact path, or
// else the longest prefix.
func newHost(told *joinapi.IngressHost, of *tenant) *host {
	h := &host{tenant: of, certificate: told.Certificate, exact: map[string]string{}}
	for _, p := range told.Paths {
		if !p.Exact {
			h.prefixes.add(strings.Trim(p.Path, "/"), p.Backend)
		} else if _, found := h.exact[p.Path]; !found {
			h.exact[p.Path] = p.Backend
		}
	}
	return h
}

func (e *element) add(rest, backend string) {
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		child := e.children[name]
		if child == nil {
			child = &element{}
			if e.children == nil {
				e.children = map[string]*element{}
			}
			e.children[name] = child
		}
		e = child
	}
	if !e.ends {
		e.ends, e.backend = true, backend
	}
}

func (e *element) find(rest string) (backend string, found bool) {
	for {
		if e.ends {
			backend, found = e.backend, true
		}
		if rest == "" {
			return backend, found
		}
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		if e = e.children[name]; e == nil {
			return backend, found
		}
	}
}

// find returns the ID of the backend for the decoded path of a request.
func (h *host) find(requested string) (backend string, found bool) {
	if requested == "" { // of "GET http://host"
		requested = "/"
	}
	cleaned := path.Clean(requested)
	whole := cleaned
	if strings.HasSuffix(requested, "/") && cleaned != "/" {
		whole += "/" // an exact path differs by it
	}
	if backend, found = h.exact[whole]; found {
		return backend, true
	}
	return h.prefixes.find(cleaned[1:])
}

// host returns the host with a name as hostName returns it, or nil.
func (s *snapshot) host(name string) *host {
	if h := s.hosts[name]; h != nil {
		return h
	}
	if dot := strings.IndexByte(name, '.'); dot > 0 {
		if h := s.hosts["*"+name[dot:]]; h != nil {
			return h
		}
	}
	return s.hosts[""]
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
