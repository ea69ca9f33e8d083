package edge

import (
	"context"
	"net/http"

	"github.com/sirupsen/logrus"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/authn"
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

// Limits bounds and measures requests.
type Limits interface {
	// Serve runs serve, or returns why the request is refused.
	Serve(ctx context.Context, w http.ResponseWriter, r limits.Request, serve func(http.ResponseWriter) error) error
}

// Options configures the edge.
type Options struct {
	// DefaultTenant is the tenant of users who have none, "" for system.
	DefaultTenant string
	// Groups are the tenants of which members of groups are members; nil for none.
	Groups tenantapi.Groups
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
	// Issuers are the providers of tenants; nil for none.
	Issuers authn.Issuers
	// Queue is where the requests of tenants' users wait; nil for none.
	Queue *fairqueue.Queue
	// Gated are the users of controllers that have a gate a tenant in front of their queues:
	// their requests are counted for the tenant that they are about. Nil is for none.
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
	e.auth = authn.Wrap(inner, authn.Options{DefaultTenant: e.opts.DefaultTenant, Groups: e.opts.Groups,
		TokenFile: e.opts.TokenFile, Tenants: e.opts.Tenants, Issuers: e.opts.Issuers, Log: e.opts.Log})
	return e.auth
}

// Handler puts the edge in front of next. Requests that the edge refuses to a user
// go through audited.
func (e *Edge) Handler(next http.Handler, audited func(http.Handler) http.Handler) http.Handler {
	refuse := e.refuser(audited)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req, r := e.others.receive(req)
		p := &chain{Handler: next}
		if err := e.serve(w, req, p, r); err != nil {
			refuse(w, req, p, r, err)
		}
	})
}
