package edge

import (
	"context"
	"errors"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/a4s-io/a4s/server/tenancy/authn"
)

// held are the requests of users of tenants that are being served. They end
// with their tenant: one that is made under its name is somebody else's, and a
// watch, or a body that comes slowly, may last longer than it takes to make it.
type held struct {
	mu sync.Mutex
	of map[string]map[*holding]struct{} // by tenant
}

type holding struct {
	cancel context.CancelFunc
	nodes  bool // it may be about nodes
}

func newHeld() *held { return &held{of: map[string]map[*holding]struct{}{}} }

// hold lets a request end with the tenant of its user. release must be called
// when it was served.
func (e *Edge) hold(req *http.Request, r *request) (_ *http.Request, release func(), _ error) {
	tenant := r.userTenant
	uid, err := authn.Life(req.Context())
	switch {
	case errors.Is(err, authn.ErrAbsent):
		return nil, nil, noTenant(tenant)
	case err != nil:
		return nil, nil, apierrors.NewInternalError(err)
	}
	ctx, cancel := context.WithCancel(req.Context())
	h := &holding{cancel: cancel, nodes: r.resource != nil && r.resource.resource == "nodes"}
	e.held.add(tenant, h)
	release = func() {
		e.held.remove(tenant, h)
		cancel()
	}
	// Whoever was found out before this one got in would not end with it.
	if now, err := e.opts.Tenants.Get(ctx, tenant); err != nil || now == nil || now.UID != uid {
		release()
		if err != nil {
			return nil, nil, apierrors.NewInternalError(err)
		}
		return nil, nil, noTenant(tenant)
	}
	return req.WithContext(ctx), release, nil
}

// TenantGone ends what is left of the requests of a tenant's users.
func (e *Edge) TenantGone(tenant string) {
	e.held.mu.Lock()
	defer e.held.mu.Unlock()
	for h := range e.held.of[tenant] {
		h.cancel()
	}
	delete(e.held.of, tenant)
}

// NodesChanged ends the requests of a tenant's users about nodes: they may read
// them, or may not any more. Clients that watch begin again.
func (e *Edge) NodesChanged(tenant string) {
	e.held.mu.Lock()
	defer e.held.mu.Unlock()
	for h := range e.held.of[tenant] {
		if h.nodes {
			h.cancel()
		}
	}
}

func (s *held) add(tenant string, h *holding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[tenant] == nil {
		s.of[tenant] = map[*holding]struct{}{}
	}
	s.of[tenant][h] = struct{}{}
}

func (s *held) remove(tenant string, h *holding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of[tenant], h)
	if len(s.of[tenant]) == 0 {
		delete(s.of, tenant)
	}
}
