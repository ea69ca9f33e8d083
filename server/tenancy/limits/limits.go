package limits

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// retryAfter is the seconds after which a client that was refused may come
// back; upstream's own filters say the same.
const retryAfter = 1

// verbWatch is the verb of what counts among the watches of a tenant.
const verbWatch = "watch"

// Tenants finds Tenants.
type Tenants interface {
	// Get finds a tenant, nil when there is none. The answer is not changed.
	Get(ctx context.Context, name string) (*tenantapi.Tenant, error)
}

// Load is told what is written in the spaces of tenants.
type Load interface {
	// Wrote counts a write of an object of a tenant.
	Wrote(tenant string)
}

// Options configures Limits.
type Options struct {
	Tenants Tenants
	// Defaults bound tenants that have no limit of their own; nil is none.
	Defaults *tenantapi.TenantLimits
	// Template finds a template, nil when there is none: its limits go before Defaults. A nil
	// Template is none at all.
	Template func(name string) *tenantapi.TenantTemplate
	// Fill, if not nil, is how many bytes are in use in the datastore, and may
	// be; a quota of 0 is none, or not known.
	Fill func() (used, quota int64)
	// Load, if not nil, is told of writes.
	Load Load
	Log  *logrus.Entry
}

// Limits knows what tenants use.
type Limits struct {
	tenants  Tenants
	defaults *tenantapi.TenantLimits
	template func(name string) *tenantapi.TenantTemplate
	fill     func() (used, quota int64)
	load     Load
	log      *logrus.Entry
	keys     keys
	remover
	accounting *accounting
	quotas     quotas
	// shownQuotas are the limits by name that metrics say, by tenant. It is that of show alone.
	shownQuotas map[string][]string
	users       sync.Map // tenant -> *usage
	rates       rateLimits
	filled      atomic.Pointer[filled]
}

// New makes Limits that have counted nothing yet.
func New(o Options) *Limits {
	l := &Limits{
		tenants: o.Tenants, defaults: o.Defaults, template: o.Template, fill: o.Fill, load: o.Load, log: o.Log,
		accounting: newAccounting(),
		keys:       keys{log: o.Log, resources: map[string]*stored{}},
	}
	l.remover = remover{&l.keys}
	return l
}

// Forget drops what is known of a tenant that is gone. What the datastore still
// has of it stays counted.
func (l *Limits) Forget(tenant string) {
	if u, ok := l.users.LoadAndDelete(tenant); ok {
		labels.forget(u.(*usage))
	}
	l.rates.tenants.Delete(tenant)
	l.quotas.tenants.Delete(tenant)
}

// Request is what the edge knows about a request of a tenant's user.
type Request struct {
	Tenant string
	Verb   string
	// LongRunning requests, watches for instance, do not count as in flight,
	// as they do not for upstream's own limits.
	LongRunning bool
}

// Serve runs a request within the limits of its tenant, and measures it. The
// error is that of serve, or the refusal.
func (l *Limits) Serve(
	ctx context.Context, w http.ResponseWriter, r Request, serve func(http.ResponseWriter) error,
) (err error) {
	t, err := l.tenants.Get(ctx, r.Tenant)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("looking for the tenant: %w", err))
	}
	if t == nil {
		return serve(w) // it is refused, and the name is anybody's
	}
	u := l.usageOf(r.Tenant)
	c := &codeWriter{ResponseWriter: w}
	defer func() { u.count(r.Verb, codeOf(c.code, err)) }()
	limits := l.limitsOf(t)
	if r.LongRunning {
		if r.Verb == verbWatch {
			open := u.watches.Add(1)
			defer u.watches.Add(-1)
			if most := limits.Watches; most != nil && open > *most {
				return tooMany("watches open", tenantapi.LimitWatches, *most)
			}
		}
		return serve(responsewriter.WrapForHTTP1Or2(c))
	}
	now := u.inFlight.Add(1)
	ended := u.begin()
	defer func() {
		u.inFlight.Add(-1)
		ended()
	}()
	if most := limits.RequestsInFlight; most != nil && now > *most {
		return tooMany("requests in flight", tenantapi.LimitRequestsInFlight, *most)
	}
	return serve(responsewriter.WrapForHTTP1Or2(c))
}

// tooMany refuses what is one more than a limit, by its name, lets be at a time.
func tooMany(what, limit string, most int64) error {
	return apierrors.NewTooManyRequests(fmt.Sprintf("the tenant has %d %s, which is its limit: try again later; an "+
		"administrator of the cluster can raise spec.limits.%s of the Tenant", most, what, limit), retryAfter)
}

// usage is what goes on in the name of one tenant.
type usage struct {
	tenant   string
	inFlight atomic.Int64
	watches  atomic.Int64
	gone     bool // guarded by labels
}

func (l *Limits) usageOf(tenant string) *usage {
	if u, ok := l.users.Load(tenant); ok {
		return u.(*usage)
	}
	u, _ := l.users.LoadOrStore(tenant, &usage{tenant: tenant})
	return u.(*usage)
}

// codeWriter remembers the code of an answer.
type codeWriter struct {
	http.ResponseWriter
	code int
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (c *codeWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (c *codeWriter) WriteHeader(code int) {
	if c.code == 0 && (code >= http.StatusOK || code == http.StatusSwitchingProtocols) {
		c.code = code
	}
	c.ResponseWriter.WriteHeader(code)
}

// codeOf is the code of the answer; one that nobody set is that of a body
// without a header, or of a connection that was taken over.
func codeOf(code int, err error) int {
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		return int(status.Status().Code)
	case err != nil:
		return http.StatusInternalServerError
	case code == 0:
		return http.StatusOK
	}
	return code
}
