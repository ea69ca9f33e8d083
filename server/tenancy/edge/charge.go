package edge

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/fairness/ledger"
)

// worksFor is the tenant for which a controller with a gate does something, "" for all else: a
// kubelet or the scheduler work for several tenants in turn.
func (r *request) worksFor(gated map[string]bool) string {
	if r.resource == nil || !gated[r.user.GetName()] {
		return ""
	}
	if tenant, _ := space.SplitNamespace(r.resource.namespace); !space.IsSystem(tenant) {
		return tenant
	}
	return ""
}

// charge counts what is done for a tenant by another. It does not wait in the tenant's queue: the
// gate bounds how much of it there is, and a burst of an honest tenant would wait twice.
func (q *queue) charge(tenant string) {
	if q != nil && tenant != "" {
		q.use.Began(ledger.FlowOf(tenant), ledger.Controllers)
	}
}

// identified is the step that has the tenant charged. Comes in: who it is that was admitted.
// Goes out: a turn that is one of their tenant, for which the request may have to wait once
// more. Who has no credential stays one of their address, so that nobody gets past the queue by
// saying nothing; so does who has yet to say as the user of which tenant they ask. members are the
// tenants between which the user may choose.
func (a *admission) identified(ctx context.Context, u user.Info, members []string) (err error) {
	defer func() {
		if err == nil {
			a.count()
		}
	}()
	if a.q == nil || !a.said && (!a.known || u.GetName() == user.Anonymous) {
		return nil
	}
	tenant := space.TenantOf(u)
	flow := tenantFlow(tenant)
	if a.known && !a.said && (flow != a.flow || members != nil) {
		a.q.flows.Add(a.by, flowOf{flow, members})
	}
	if flow == a.flow || tenant == space.All {
		return nil
	}
	a.flow = flow
	switch {
	case flow == "":
		a.counted = true // nobody's
		a.leave()
	case a.seat == nil:
		return a.acquire(ctx)
	default:
		a.seat.Move(flow)
	}
	return nil
}

// flowOf is where the requests of a credential wait: in one flow, or as a member of several
// tenants in that of the one that their path chooses.
type flowOf struct {
	flow    string
	members []string
}

// at is the flow of a request whose path names a tenant; ok is false if it chooses none.
func (f flowOf) at(named string) (flow string, ok bool) {
	if f.members == nil {
		return f.flow, true
	}
	tenant, decided := authn.Choose(f.members, named)
	return tenantFlow(tenant), decided
}

// tenantFlow is where the requests of a tenant wait.
func tenantFlow(tenant string) string {
	if space.IsSystem(tenant) {
		return "" // does not wait
	}
	return ledger.FlowOf(tenant)
}

// count counts the request once, when it is known whose it is, or never will be.
func (a *admission) count() {
	if a.seat != nil && !a.counted {
		a.counted = true
		a.q.use.Began(a.flow, a.work)
	}
}

// leave gives the seat back, unless what was begun behind goes on.
func (a *admission) leave() {
	if a.seat != nil {
		a.count()
		a.seat.Release()
		a.seat = nil
	}
}
