package edge

import (
	"context"
	"fmt"
	"net/http"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/edge/proxied"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
	"github.com/a4s-io/a4s/server/tenancy/fairness/ledger"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/limits"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// Tenants knows the tenants of the cluster.
type Tenants interface {
	authn.Tenants
	// Exists reports whether there is a Tenant of this name.
	Exists(ctx context.Context, name string) (bool, error)
}

// Spaces makes the spaces of tenants.
type Spaces interface {
	// Ensure returns when the space of a tenant is made, or why it cannot be used.
	Ensure(ctx context.Context, tenant string) error
}

// Limits bounds and measures requests.
type Limits interface {
	// Serve runs serve, or returns why the request is refused.
	Serve(ctx context.Context, w http.ResponseWriter, r limits.Request, serve func(http.ResponseWriter) error) error
}

// Options configures the edge.
type Options struct {
	// DefaultTenant is the tenant of users who have none, "" for system.
	DefaultTenant string
	// Group is the service group of the server, "" for none.
	Group string
	// Partitions are those of the cluster; nil for the only one there can be.
	Partitions Partitions
	// Tenants are the tenants of the cluster; nil for an edge that serves discovery only.
	Tenants Tenants
	// Spaces makes those that nobody has used yet; nil if all are made.
	Spaces Spaces
	// Accounts are the service accounts of the system space; nil for an edge on whose
	// short paths everybody of the system has the whole cluster.
	Accounts Accounts
	// CustomResources are the custom resources of each space; nil for none.
	CustomResources CustomResources
	// TokenFile knows the tenants of static tokens; nil if there is no token file.
	TokenFile authenticator.Token
	// Queue is where the requests of tenants' users wait; nil for none.
	Queue *fairqueue.Queue
	// Gated are the users of controllers that have a gate a tenant in front of their queues:
	// their requests wait among those of the tenant that they are about. Nil is for none.
	Gated map[string]bool
	// Use is told whose requests were refused, and how many there are; nil for nobody.
	Use *ledger.Ledger
	// Limits bounds and measures requests of tenants' users; nil for no limits.
	Limits Limits
	// Load is told what is sent to watches of tenants; nil for nobody.
	Load Load
	Log  *logrus.Entry
}

// Edge resolves, composes and projects requests.
type Edge struct {
	projection
	discoveryServer
	*inFlight
	opts  Options
	auth  authenticator.Request
	queue *queue // nil for none
	// others are those that other partitions serve.
	others others
}

// projection is how each space sees objects.
type projection struct {
	kinds *kinds.Table
	table *wire.Table
	crds  CustomResources
}

// New makes an edge. Its Authenticator and Handler are seams of the API
// server; Authenticator must be called first.
func New(o Options) *Edge {
	table := kinds.New()
	e := &Edge{
		opts:       o,
		projection: projection{kinds: table, table: wire.NewTable(), crds: o.CustomResources},
		discoveryServer: discoveryServer{discoveryViews{
			kinds: table, crds: o.CustomResources, tenants: o.Tenants, discoveryCache: newDiscoveryCache(),
		}},
		inFlight: newInFlight(),
		others:   others{partitions: o.Partitions, tenants: o.Tenants},
	}
	if o.Queue != nil {
		e.queue = newQueue(o.Queue)
		e.queue.use = o.Use
	}
	return e
}

// Authenticator gives every user their tenant. The edge authenticates with it, too.
func (e *Edge) Authenticator(inner authenticator.Request) authenticator.Request {
	e.auth = authn.Wrap(inner, authn.Options{DefaultTenant: e.opts.DefaultTenant, TokenFile: e.opts.TokenFile,
		Tenants: e.opts.Tenants, Log: e.opts.Log})
	return e.auth
}

// Handler puts the edge in front of next. Requests that the edge refuses to a user
// go through audited.
func (e *Edge) Handler(next http.Handler, audited func(http.Handler) http.Handler) http.Handler {
	refuse := e.refuser(audited)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req, mark, named := e.others.fromPartition(req)
		r, p := read(req), &chain{Handler: next}
		r.mark, r.partition = mark, named
		if err := e.serve(w, req, p, r); err != nil {
			refuse(w, req, p, r, err)
		}
	})
}

// serve answers a request or returns why it is refused before it reaches the
// API server.
func (e *Edge) serve(w http.ResponseWriter, req *http.Request, next *chain, r *request) error {
	if err := r.boundQuery(req); err != nil {
		e.queue.refuse(req, r.mark)
		return err
	}
	entry, err := e.queue.enter(req, r.mark, r.work())
	if err != nil {
		return err
	}
	defer entry.leave()
	req, answer, ok, err := authn.Early(e.auth, req)
	if err != nil || !ok {
		if e.others.passOn(w, req, r, entry) {
			return nil
		}
		// The chain behind says 401, and audits it.
		next.ServeHTTP(w, withPath(req, r.path))
		return nil
	}
	r.identify(answer.User, req.Header)
	if err := entry.identified(req.Context(), r.user, r.charged(e.opts.Gated)); err != nil {
		return err
	}
	if sent, err := e.others.elsewhere(w, req, r, entry); sent || err != nil {
		return err
	}
	if w, req, err = e.part(w, req, r); err != nil {
		return err
	}
	if space.IsSystem(r.userTenant) {
		return e.route(w, req, next, r)
	}
	if err := r.boundSelectors(req); err != nil {
		return err
	}
	w, req = entry.seated(w, req)
	req, release, err := e.track(req, r)
	if err != nil {
		return err
	}
	defer release()
	if e.opts.Limits == nil {
		return e.route(w, req, next, r)
	}
	limited := limits.Request{Tenant: r.userTenant, Verb: r.verb, LongRunning: r.long}
	return e.opts.Limits.Serve(req.Context(), w, limited, func(w http.ResponseWriter) error {
		return e.route(w, req, next, r)
	})
}

// route sends a request of an identified user to the space that it is addressed to.
func (e *Edge) route(w http.ResponseWriter, req *http.Request, next http.Handler, r *request) error {
	if e.showsGroups(r) {
		next = e.withGroups(next, r.resource)
	}
	own := r.space != space.System && r.space == r.ofTenant
	bySystem := space.IsSystem(r.ofTenant) && r.space != space.System
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
	case r.space == space.All && !space.IsSystem(r.ofTenant):
		// Behaves like any other space that is not the user's: the
		// authorizer refuses it without saying whether it exists.
	case r.space == space.All:
		e.findKind(r)
		return e.serveAll(w, withPath(req, r.path), next, r)
	case own && r.userTenant == r.space && e.opts.Spaces != nil:
		// Before the authorizer is asked, which judges by roles of the space. Who is
		// impersonated has yet to be let in.
		var err error
		fairqueue.Of(req.Context()).Wait(func() { err = e.opts.Spaces.Ensure(req.Context(), r.space) })
		if err != nil {
			return err
		}
	case own, bySystem:
		if err := e.mustExist(req.Context(), r.space); err != nil {
			return err
		}
	}
	e.findKind(r)
	if r.resource != nil && r.resource.proxies() {
		req = req.WithContext(proxied.With(req.Context(), r.resource.proxyRoot(r.sent)))
	}
	return e.serveSpace(w, withPath(req, r.path), next, r)
}

// mustExist refuses requests to a tenant that does not exist.
func (e *Edge) mustExist(ctx context.Context, tenant string) error {
	exists, err := e.opts.Tenants.Exists(ctx, tenant)
	switch {
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("looking for the tenant: %w", err))
	case !exists:
		return noTenant(tenant)
	}
	return nil
}

func noTenant(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "tenants"}, name)
}

// Projector translates for one tenant.
func (e *projection) Projector(tenant string) *wire.Projector {
	return &wire.Projector{View: e.view(tenant), Table: e.table}
}

// view is how tenant sees the cluster.
func (e *projection) view(tenant string) *wire.View {
	return &wire.View{
		Tenant:            tenant,
		ClusterScoped:     func(group, kind string) bool { return e.clusterScoped(tenant, group, kind) },
		GroupOf:           func(kind string) (string, bool) { return e.groupOf(tenant, kind) },
		SharedClusterRole: kinds.SharedClusterRole,
	}
}

// clusterScoped reports whether the names of a kind are composed.
func (e *projection) clusterScoped(tenant, group, kind string) bool {
	if kinds.IsReview(group) {
		return false
	}
	k, ok := e.kinds.Kind(group, kind)
	if !ok && e.crds != nil {
		k, ok = e.crds.Kind(tenant, group, kind)
	}
	return ok && !k.Namespaced && k.Class == kinds.Tenant
}

// groupOf finds the group of a kind by its name alone.
func (e *projection) groupOf(tenant, kind string) (string, bool) {
	group, ok := e.kinds.GroupOf(kind)
	if !ok && e.crds != nil {
		group, ok = e.crds.GroupOf(tenant, kind)
	}
	return group, ok
}

// find fills in what kind a request is about, as a tenant has it.
func (e *projection) find(tenant string, r *resourceRequest) {
	k, ok := e.kinds.Resource(r.group, r.resource)
	r.builtIn = ok
	if !ok && e.crds != nil {
		k, ok = e.crds.Resource(tenant, r.group, r.resource)
	}
	if ok {
		r.kind, r.known = k, true
		return
	}
	// An unknown resource does not exist, or its CRD is being established. Whether
	// the path has a namespace decides how it is treated.
	r.kind = kinds.Kind{Group: r.group, Resource: r.resource, Namespaced: r.namespaceAt > 0}
}

// withPath is req with another path and everything else as it was.
func withPath(req *http.Request, path string) *http.Request {
	if req.URL.Path == path {
		return req
	}
	out := new(http.Request)
	*out = *req
	u := *req.URL
	u.Path, u.RawPath = path, ""
	out.URL = &u
	out.RequestURI = u.RequestURI()
	return out
}
