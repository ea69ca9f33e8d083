package edge

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// serveForSystem goes on with a request of a user of the system: in one space, in all of them,
// or with the whole cluster as it is.
func (e *Edge) serveForSystem(w http.ResponseWriter, req *http.Request, next http.Handler, r *request) error {
	if e.showsGroups(r) {
		next = e.withGroups(next, r.resource)
	}
	switch {
	case r.space == "":
		var err error
		if r.confined, err = confineShort(e.opts.Accounts, r, req.Header); err != nil {
			return err
		}
		if r.confined {
			req = req.WithContext(space.WithTenant(req.Context(), space.System))
		}
		e.findKind(r)
		return e.serveSystem(w, req, next, r)
	case r.space == space.All && space.IsSystem(r.ofTenant):
		e.findKind(r)
		return e.serveAll(w, withPath(req, r.path), next, r)
	}
	req, release := e.trackSystem(req, r)
	defer release()
	if err := e.cordon(req, r); err != nil {
		return err
	}
	if err := e.openSpace(req, r); err != nil {
		return err
	}
	return e.serveSpace(w, req, next, r)
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
	return handOn(w, withoutEncoding(req), next, p, r, nil)
}

// acrossTenants reports whether a system user on a short path asks for a table of
// namespaced objects of all spaces. Clients show no tenant of their own accord.
func (r *request) acrossTenants() bool {
	if r.space != "" || !r.table || r.confined {
		return false
	}
	asked := r.resource
	return asked.known && asked.kind.Namespaced && asked.kind.Class == kinds.Tenant && !kinds.IsReview(asked.group)
}

// serveAcross serves a table of the namespaced objects of all spaces: with a column
// for the tenant, and everything else as it is.
func (e *Edge) serveAcross(w http.ResponseWriter, req *http.Request, next http.Handler, asked *request) error {
	p := e.Projector(space.All)
	p.Tenants, p.Composite = wire.ColumnLast, true
	return handOn(w, withoutEncoding(req), next, p, asked.resource, nil)
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
