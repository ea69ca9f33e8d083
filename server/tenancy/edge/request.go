package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// serveSpace serves a request that is addressed to one space, natively. asked is
// what it asks for, nil for what is not a resource.
func (e *Edge) serveSpace(w http.ResponseWriter, req *http.Request, next http.Handler, asked *request, tenant, ofUser string) error {
	req = cloneForSpace(req, tenant)
	p := e.Projector(tenant)
	if !space.IsSystem(ofUser) {
		if err := authn.RewriteImpersonation(req.Header, ofUser); err != nil {
			return apierrors.NewForbidden(schema.GroupResource{}, "", err)
		}
	} else if err := authn.RewriteImpersonation(req.Header, tenant); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if asked == nil {
		return e.serveDocument(w, req, next, p, tenant)
	}
	r := *asked
	if r.namespace == "." || r.namespace == ".." || r.name == "." || r.name == ".." {
		return apierrors.NewBadRequest(fmt.Sprintf("the path %s has a segment that is not a name", req.URL.Path))
	}
	e.find(tenant, &r)
	if tenant != space.System && !e.inSpaces(&r) {
		return apierrors.NewGenericServerResponse(http.StatusNotFound, req.Method, r.groupResource(), "", "", 0, false)
	}
	if writes(req.Method) && r.sharedRole() && tenant != space.System {
		return apierrors.NewForbidden(r.groupResource(), r.name, errors.New("the default roles are the same in all spaces and are changed by the administrators of the cluster"))
	}
	if writes(req.Method) && r.apiObject() && !r.streams() && tenant != space.System {
		return apierrors.NewForbidden(r.groupResource(), r.name, errors.New("it is where the API is found, which is the same in all spaces and kept by the cluster"))
	}
	composeName := r.ownName() && tenant != space.System
	req = withPath(req, r.composed(tenant, composeName))
	if r.streams() {
		return serveAnswer(w, req, next, p, &r, nil)
	}
	if req.URL.RawQuery != "" && r.selects() {
		if err := e.composeQuery(req, p, &r); err != nil {
			return err
		}
	}
	return serveAnswer(w, req, next, p, &r, e.composeBody(req, p, &r, ofUser))
}

// inSpaces tells whether tenants have a resource at all. Not there for them are
// custom resources whose definition is not shared, and what is neither built in
// nor defined, such as the nodes of an API of custom metrics: without a namespace nobody
// could tell whose it is. What is built in and the system's is refused with a
// reason later.
func (e *Edge) inSpaces(r *request) bool {
	if _, builtIn := e.kinds.Resource(r.group, r.resource); builtIn {
		return true
	}
	if r.known {
		return r.kind.Class != kinds.System
	}
	return r.namespaceAt > 0
}

// serveAll serves tenants/all: list and watch of every space, each object as
// its own tenant sees it, and what clients ask before that.
func (e *Edge) serveAll(w http.ResponseWriter, req *http.Request, next http.Handler, asked *request) error {
	p := e.Projector(space.All)
	p.Tenants = wire.ColumnFirst
	if asked == nil {
		return e.serveDocument(w, withoutEncoding(req), next, p, space.All)
	}
	if req.Method != http.MethodGet || asked.name != "" || asked.namespace != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("tenants/%s can be listed and watched across namespaces, nothing else: address one tenant", space.All))
	}
	r := *asked
	e.find(space.All, &r)
	return serveAnswer(w, withoutEncoding(req), next, p, &r, nil)
}

// acrossTenants tells whether a system user on a short path asks for a Table of
// namespaced objects of all spaces. Clients show no tenant of their own accord.
func (e *Edge) acrossTenants(req *http.Request, asked *request) bool {
	if asked == nil || asked.name != "" || asked.namespace != "" || asked.verb != "list" && !asked.watches() ||
		!strings.Contains(req.Header.Get("Accept"), "as=Table") || req.Header.Get("Upgrade") != "" {
		return false
	}
	r := *asked
	e.find(space.All, &r)
	return r.known && r.kind.Namespaced && r.kind.Class == kinds.Tenant && !kinds.IsReview(r.group)
}

// serveAcross serves what acrossTenants tells: with a column that says the tenant,
// and everything else as it is.
func (e *Edge) serveAcross(w http.ResponseWriter, req *http.Request, next http.Handler, asked *request) error {
	r := *asked
	e.find(space.All, &r)
	p := e.Projector(space.All)
	p.Tenants, p.Composite = wire.ColumnLast, true
	return serveAnswer(w, withoutEncoding(req), next, p, &r, nil)
}

// serveSystem serves a system user on a short path: untouched, but for bodies that
// name a tenant.
func (e *Edge) serveSystem(w http.ResponseWriter, req *http.Request, next http.Handler, asked *request) error {
	// For everybody else the discovery is upstream's: nothing of it is a
	// tenant's.
	if authn.IsController(authn.Authenticated(req.Context())) {
		if done, err := e.serveComposite(w, req, next); done {
			return err
		}
	}
	if e.acrossTenants(req, asked) {
		return e.serveAcross(w, req, next, asked)
	}
	if asked != nil {
		r := *asked
		e.find(space.System, &r)
		req = e.watchBody(req, &r)
	}
	if asked == nil && reads(req) && strings.HasPrefix(req.URL.Path, "/openapi/") {
		if d, ok := documentOf(req); ok {
			return e.serveWhole(w, req, next, d)
		}
	}
	next.ServeHTTP(w, req)
	return nil
}

// unserved stands for the media types that cannot be projected: one that the API
// server answers as it does any that it does not know.
const unserved = "application/x-unserved"

// cloneForSpace prepares a request that will be changed: it is marked with the
// space, and asks for answers that can be projected.
func cloneForSpace(req *http.Request, tenant string) *http.Request {
	out := withoutEncoding(req.WithContext(space.WithTenant(req.Context(), tenant)))
	if accept := out.Header.Get("Accept"); strings.Contains(strings.ToLower(accept), "cbor") {
		parts := strings.Split(accept, ",")
		for i, part := range parts {
			if strings.Contains(strings.ToLower(part), "cbor") {
				parts[i] = unserved
			}
		}
		out.Header.Set("Accept", strings.Join(parts, ","))
	}
	return out
}

// withoutEncoding has the API server answer uncompressed; the edge compresses
// what it has projected.
func withoutEncoding(req *http.Request) *http.Request {
	out := req.WithContext(context.WithValue(req.Context(), encodingKey{}, req.Header.Get("Accept-Encoding")))
	out.Header = req.Header.Clone()
	out.Header.Set("Accept-Encoding", "identity")
	return out
}

// composeQuery rewrites the selectors of a list, watch or delete.
func (e *Edge) composeQuery(req *http.Request, p *wire.Projector, r *request) error {
	q := req.URL.Query()
	changed := false
	for key, translate := range map[string]func(wire.Resource, string) (string, error){
		"fieldSelector": p.FieldSelector,
		"labelSelector": p.LabelSelector,
	} {
		s := q.Get(key)
		if s == "" {
			continue
		}
		composed, err := translate(r.wire(), s)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		if composed != s {
			q.Set(key, composed)
			changed = true
		}
	}
	if changed {
		setQuery(req, q)
	}
	return nil
}

func setQuery(req *http.Request, q url.Values) {
	u := *req.URL
	u.RawQuery = q.Encode()
	req.URL = &u
	req.RequestURI = u.RequestURI()
}

func (r *request) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.group, Resource: r.resource}
}
