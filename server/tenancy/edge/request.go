package edge

import (
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// request is one HTTP request as the edge resolves it. It is made once, where the
// request comes in, and handed on: two readings of the same path could differ, and
// the difference would lead from one space into another.
//
// It is filled in three steps. read takes what the request says, identify adds the
// user and with them the space, and findKind looks up what the resource is in that
// space. The last step comes as late as it can: a CRD may change while a request
// waits for a seat.
type request struct {
	// mark is that of a request which another partition sent on, partition the one that the
	// path of the client begins with. They are set before all others.
	mark      *Mark
	partition string

	// Set by read.

	// sent is the path as the client sent it, path the short one.
	sent, path string
	// inPath is the tenant that the path names, "" on a short path.
	inPath string
	// resource is what is asked for, nil for a non-resource request.
	resource *resourceRequest
	// document is the discovery or OpenAPI document that is asked for, or nil.
	document *documentRequest
	// verb is for limits and metrics; a long request lasts as long as the client
	// likes.
	verb string
	long bool
	// table is set where a client lists or watches a resource as a table, without
	// saying a namespace or a name.
	table bool

	// Set by identify.

	// user is the authenticated user, nil until then, and userTenant their tenant.
	user       user.Info
	userTenant string
	// ofTenant is the tenant of the user that counts: of the impersonated one if
	// a user of the system impersonates one.
	ofTenant string
	// space is the space that the request is addressed to, "" for the composite
	// view of the whole cluster.
	space string
	// confined is set when the request is on a short path and reaches the space of the
	// system alone.
	confined bool

	// kindFound is set by findKind.
	kindFound bool
}

// read resolves what the request itself says.
func read(req *http.Request) *request {
	addr := splitAddress(req.URL.Path)
	r := &request{sent: req.URL.Path, path: addr.path, inPath: addr.tenant}
	if asked, ok := parse(withPath(req, r.path)); ok {
		r.resource = &asked
		r.table = asked.name == "" && asked.namespace == "" && (asked.verb == "list" || asked.watches()) &&
			strings.Contains(req.Header.Get("Accept"), "as=Table") && req.Header.Get("Upgrade") == ""
	} else {
		r.document = documentOf(req, r.path, r.prefix())
	}
	r.verb, r.long = describe(req.Method, r.resource)
	return r
}

// prefix is the /tenants/<t> that the path begins with, or "".
func (r *request) prefix() string {
	if r.inPath == "" || !strings.HasPrefix(r.sent, "/tenants/") {
		return ""
	}
	return "/tenants/" + r.inPath
}

// identify resolves the space by the user.
func (r *request) identify(u user.Info, header http.Header) {
	r.user, r.userTenant = u, space.TenantOf(u)
	r.ofTenant = r.userTenant
	if space.IsSystem(r.userTenant) {
		// Whether the user may impersonate is for the authorizer to say.
		if t := authn.ImpersonatedTenant(header); t != "" {
			r.ofTenant = t
		}
	}
	r.space = resolve(r.inPath, r.ofTenant, "")
}

// findKind looks up what the resource of an identified request is in its space. The
// view of the whole cluster has the resources of the system, but for tables: they
// show the objects of all spaces.
func (e *Edge) findKind(r *request) {
	if r.resource == nil || r.kindFound {
		return
	}
	of := r.space
	switch {
	case of == "" && r.table && !r.confined:
		of = space.All
	case of == "":
		of = space.System
	}
	e.find(of, r.resource)
	r.kindFound = true
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
