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
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// serveSpace serves a request that is addressed to one space, natively.
func (e *Edge) serveSpace(w http.ResponseWriter, req *http.Request, next http.Handler, asked *request) error {
	tenant, ofUser := asked.space, asked.ofTenant
	req = cloneForSpace(req, tenant)
	p := e.Projector(tenant)
	if !space.IsSystem(ofUser) {
		if err := authn.RewriteImpersonation(req.Header, ofUser); err != nil {
			return apierrors.NewForbidden(schema.GroupResource{}, "", err)
		}
	} else if err := authn.RewriteImpersonation(req.Header, tenant); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	r := asked.resource
	if r == nil {
		return e.serveNonResource(w, req, next, p, asked)
	}
	if r.namespace == "." || r.namespace == ".." || r.name == "." || r.name == ".." {
		return apierrors.NewBadRequest(fmt.Sprintf("the path %s has a segment that is not a name", req.URL.Path))
	}
	if tenant != space.System && !e.inSpaces(r) {
		return apierrors.NewGenericServerResponse(http.StatusNotFound, req.Method, r.groupResource(), "", "", 0, false)
	}
	if writes(req.Method) && r.sharedRole() && tenant != space.System {
		return apierrors.NewForbidden(r.groupResource(), r.name, errors.New("the default roles are the same in all "+
			"spaces and are changed by the administrators of the cluster"))
	}
	if writes(req.Method) && r.apiObject() && !r.streams() && tenant != space.System {
		return apierrors.NewForbidden(r.groupResource(), r.name,
			errors.New("it is where the API is found, which is the same in all spaces and kept by the cluster"))
	}
	composeName := r.ownName() && tenant != space.System
	req = withPath(req, r.composed(tenant, composeName))
	if r.streams() || !r.known {
		// It waits for a pod, a node or an aggregated API server, which may ask this one.
		fairqueue.Of(req.Context()).BeginWait()
	}
	if r.streams() {
		return serveAnswer(w, req, next, p, r, nil)
	}
	if req.URL.RawQuery != "" && r.selects() {
		if err := composeQuery(req, p, r); err != nil {
			return err
		}
	}
	if r.watches() && e.opts.Load != nil && tenant != space.System {
		next = countsEvents(next, e.opts.Load, tenant)
	}
	if r.watches() {
		next = inTurns(next, fairqueue.Of(req.Context()))
	}
	return serveAnswer(w, req, next, p, r, composeBody(req, p, r))
}

// inSpaces reports whether tenants have a resource at all. They do not have custom
// resources whose CRD is not shared, nor resources of aggregated API servers without
// a namespace, such as the nodes of custom metrics: nothing tells whose these are.
// Built-in resources of the system are refused later, with a reason.
func (e *Edge) inSpaces(r *resourceRequest) bool {
	if _, builtIn := e.kinds.Resource(r.group, r.resource); builtIn {
		return true
	}
	if r.known {
		return r.kind.Class != kinds.System
	}
	return r.namespaceAt > 0
}

// serveAll serves tenants/all: list and watch of every space, each object as
// its own tenant sees it, the deletion of a whole collection, and the discovery that
// clients ask for before that.
func (e *Edge) serveAll(w http.ResponseWriter, req *http.Request, next http.Handler, asked *request) error {
	p := e.Projector(space.All)
	p.Tenants = wire.ColumnFirst
	r := asked.resource
	if r == nil {
		return e.serveNonResource(w, withoutEncoding(req), next, p, asked)
	}
	// Of what has no namespace the API server can delete a whole collection.
	empties := r.verb == "deletecollection" && r.known && !r.kind.Namespaced
	if req.Method != http.MethodGet && !empties || r.name != "" || r.namespace != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("tenants/%s can be listed and watched across namespaces, and "+
			"collections of what has no namespace deleted, nothing else: address one tenant", space.All))
	}
	return serveAnswer(w, withoutEncoding(req), next, p, r, nil)
}

// serveAcross serves a table of the namespaced objects of all spaces: with a column
// for the tenant, and everything else as it is.
func (e *Edge) serveAcross(w http.ResponseWriter, req *http.Request, next http.Handler, asked *request) error {
	p := e.Projector(space.All)
	p.Tenants, p.Composite = wire.ColumnLast, true
	return serveAnswer(w, withoutEncoding(req), next, p, asked.resource, nil)
}

// serveSystem serves a system user on a short path: untouched, but for bodies that
// name a tenant. What confineShort says is in the context.
func (e *Edge) serveSystem(w http.ResponseWriter, req *http.Request, next http.Handler, asked *request) error {
	// For all other users the discovery is upstream's: nothing of it is a
	// tenant's.
	if authn.IsController(asked.user) {
		if done, err := e.serveCompositeDiscovery(w, req, next, asked); done {
			return err
		}
	}
	if asked.acrossTenants() {
		return e.serveAcross(w, req, next, asked)
	}
	if asked.resource != nil {
		req = e.watchBody(req, asked.resource)
	}
	if d := asked.document; d != nil && d.openAPI() && reads(req) {
		return e.serveSystemOpenAPI(w, req, next, *d)
	}
	next.ServeHTTP(w, req)
	return nil
}

// unserved replaces media types that cannot be projected: the API server answers it as
// any unknown media type.
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

// withoutEncoding makes the API server answer uncompressed; the edge compresses after
// projecting.
func withoutEncoding(req *http.Request) *http.Request {
	out := req.WithContext(context.WithValue(req.Context(), encodingKey{}, req.Header.Get("Accept-Encoding")))
	out.Header = req.Header.Clone()
	out.Header.Set("Accept-Encoding", "identity")
	return out
}

// composeQuery rewrites the selectors of a list, watch or delete.
func composeQuery(req *http.Request, p *wire.Projector, r *resourceRequest) error {
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

func (r *resourceRequest) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.group, Resource: r.resource}
}
