package edge

import (
	"context"
	"errors"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
)

// inFlight are the requests of tenants' users that are being served. They end when
// their tenant is deleted: a new tenant of the same name is another tenant, and a
// watch, or a slow body, may last until it exists.
type inFlight struct {
	mu sync.Mutex
	of map[string]map[*inFlightRequest]struct{} // by tenant
}

type inFlightRequest struct {
	cancel context.CancelFunc
	nodes  bool // it is about nodes
	reads  bool // it changes nothing
}

func newInFlight() *inFlight { return &inFlight{of: map[string]map[*inFlightRequest]struct{}{}} }

// track is the step that has a request end when the tenant of its user is deleted. Comes in: a
// request of a tenant's user. Goes out: one whose context ends then; release must be called
// after it was served.
func (e *Edge) track(req *http.Request, r *request) (_ *http.Request, release func(), _ error) {
	tenant := r.userTenant
	uid, err := authn.Life(req.Context())
	switch {
	case errors.Is(err, authn.ErrAbsent):
		return nil, nil, noTenant(tenant)
	case err != nil:
		return nil, nil, apierrors.NewInternalError(err)
	}
	req, release = e.inFlight.with(req, r, tenant)
	// A tenant that was deleted before did not end this request.
	if now, err := e.opts.Tenants.Get(req.Context(), tenant); err != nil || now == nil || now.UID != uid {
		release()
		if err != nil {
			return nil, nil, apierrors.NewInternalError(err)
		}
		return nil, nil, noTenant(tenant)
	}
	return req, release, nil
}

// trackSystem is track for a user of the system who acts as one of the tenant: it ends when the
// tenant is cordoned or gone. What others of the system do goes on.
func (e *Edge) trackSystem(req *http.Request, r *request) (_ *http.Request, release func()) {
	tenant := r.actsFor(req.Header)
	if space.IsSystem(tenant) {
		return req, func() {}
	}
	return e.inFlight.with(req, r, tenant)
}

// with has a request known until release is called.
func (s *inFlight) with(req *http.Request, r *request, tenant string) (_ *http.Request, release func()) {
	ctx, cancel := context.WithCancel(req.Context())
	h := &inFlightRequest{cancel: cancel, nodes: r.resource != nil && r.resource.resource == "nodes",
		reads: r.onlyReads(req.Method)}
	s.add(tenant, h)
	return req.WithContext(ctx), func() {
		s.remove(tenant, h)
		cancel()
	}
}

// TenantGone ends the requests of a deleted tenant's users.
func (s *inFlight) TenantGone(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.of[tenant] {
		h.cancel()
	}
	delete(s.of, tenant)
}

// TenantCordoned ends the requests of a tenant's users that change something: a connection to a
// container, or a slow body, would go on doing so.
func (s *inFlight) TenantCordoned(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.of[tenant] {
		if !h.reads {
			h.cancel()
		}
	}
}

// NodesChanged ends the requests of a tenant's users about nodes after their right
// to read nodes changed. Clients that watch start again.
func (s *inFlight) NodesChanged(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.of[tenant] {
		if h.nodes {
			h.cancel()
		}
	}
}

func (s *inFlight) add(tenant string, h *inFlightRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[tenant] == nil {
		s.of[tenant] = map[*inFlightRequest]struct{}{}
	}
	s.of[tenant][h] = struct{}{}
}

func (s *inFlight) remove(tenant string, h *inFlightRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of[tenant], h)
	if len(s.of[tenant]) == 0 {
		delete(s.of, tenant)
	}
}
