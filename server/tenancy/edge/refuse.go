package edge

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	endpoints "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/httplog"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/limits"
)

// passage is the way of one request through the edge.
type passage struct {
	http.Handler // the chain behind the edge
	// user is who asks, once that is known.
	user user.Info
	// passed is set when the request has got to the chain, which audits it.
	passed bool
}

// ServeHTTP implements http.Handler.
func (p *passage) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	p.passed = true
	p.Handler.ServeHTTP(w, req)
}

// refusal is why a request is refused, and in which space.
type refusal struct {
	err    error
	tenant string
}

type refusalKey struct{}

// refuser answers requests that the edge refuses. Those that did not get to the
// chain go through audited.
func (e *Edge) refuser(audited func(http.Handler) http.Handler) func(http.ResponseWriter, *http.Request, *passage, error) {
	answer := audited(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r, _ := req.Context().Value(refusalKey{}).(refusal)
		if !space.IsSystem(r.tenant) {
			audit.AddAuditAnnotation(req.Context(), limits.Annotation, r.tenant)
			httplog.AddKeyValue(req.Context(), "tenant", r.tenant)
		}
		writeError(w, r.err)
	}))
	return func(w http.ResponseWriter, req *http.Request, p *passage, err error) {
		if p.passed || p.user == nil {
			writeError(w, err)
			return
		}
		addr := splitAddress(req.URL.Path)
		ofUser := authn.TenantOf(p.user)
		if t := authn.ImpersonatedTenant(req.Header); t != "" && space.IsSystem(ofUser) {
			ofUser = t
		}
		tenant := resolve(addr.tenant, ofUser, "")
		ctx := context.WithValue(endpoints.WithUser(req.Context(), p.user), refusalKey{}, refusal{err, tenant})
		answer.ServeHTTP(w, withPath(req.WithContext(ctx), e.recorded(addr.path, tenant)))
	}
}

// recorded is the path of a request as the audit policy and the audit log have
// those of all requests: with composite names.
func (e *Edge) recorded(path, tenant string) string {
	r, ok := parsePath(path)
	if !ok || space.IsSystem(tenant) || tenant == space.All {
		return path
	}
	e.find(tenant, &r)
	return r.composed(tenant, r.ownName())
}
