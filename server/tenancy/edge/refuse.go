package edge

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/audit"
	endpoints "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/httplog"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/failure"
	"github.com/a4s-io/a4s/server/tenancy/limits"
)

// chain is the handler chain behind the edge for one request.
type chain struct {
	http.Handler // the chain behind the edge
	// passed is set when the request has got to the chain, which audits it.
	passed bool
}

// ServeHTTP implements http.Handler.
func (p *chain) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	p.passed = true
	p.Handler.ServeHTTP(w, req)
}

// refusal is a request that is refused, and why.
type refusal struct {
	*request
	err error
}

type refusalKey struct{}

// refuser answers requests that the edge refuses. Those that did not get to the
// chain go through audited.
func (e *Edge) refuser(
	audited func(http.Handler) http.Handler,
) func(http.ResponseWriter, *http.Request, *chain, *request, error) {
	answer := audited(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r, _ := req.Context().Value(refusalKey{}).(refusal)
		if !space.IsSystem(r.space) {
			audit.AddAuditAnnotation(req.Context(), limits.Annotation, r.space)
			httplog.AddKeyValue(req.Context(), "tenant", r.space)
		}
		failure.Write(w, r.err)
	}))
	return func(w http.ResponseWriter, req *http.Request, p *chain, r *request, err error) {
		if p.passed || r.user == nil {
			failure.Write(w, err)
			return
		}
		ctx := context.WithValue(endpoints.WithUser(req.Context(), r.user), refusalKey{}, refusal{r, err})
		answer.ServeHTTP(w, withPath(req.WithContext(ctx), e.recorded(r)))
	}
}

// recorded is the path of a request as the audit policy and the audit log have
// those of all requests: with composite names.
func (e *Edge) recorded(r *request) string {
	if r.resource == nil || space.IsSystem(r.space) || r.space == space.All {
		return r.path
	}
	e.findKind(r)
	return r.resource.composed(r.space, r.resource.ownName())
}
