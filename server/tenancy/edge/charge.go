package edge

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/fairness/ledger"
)

// charged is the tenant whose flow the request waits in. What a controller with a gate does about an
// object waits in the flow of its tenant. All others, a kubelet or the scheduler, work for several
// tenants in turn, and must not wait for one of them. A controller sends its events one after the
// other, so those of one tenant would wait for another's.
func (r *request) charged(gated map[string]bool) string {
	if r.resource != nil && r.resource.resource != "events" && gated[r.user.GetName()] {
		tenant, _ := space.SplitNamespace(r.resource.namespace)
		return tenant
	}
	return r.userTenant
}

// identified is the step that has the tenant charged. Comes in: who it is that was admitted.
// Goes out: a turn that is one of the charged tenant, for which the request may have to wait
// once more. Who has no credential stays one of their address, so that nobody gets past the
// queue by saying nothing.
func (a *admission) identified(ctx context.Context, u user.Info, charged string) (err error) {
	defer func() {
		if err == nil {
			a.count()
		}
	}()
	if a.q == nil || !a.said && (!a.known || u.GetName() == user.Anonymous) {
		return nil
	}
	flow := tenantFlow(charged)
	if flow == a.flow {
		return nil
	}
	own := tenantFlow(space.TenantOf(u))
	a.flow, a.others = flow, flow != own
	if a.others {
		a.work = ledger.Controllers
	}
	if a.known && !a.said {
		a.q.flows.Add(a.by, own)
	}
	switch {
	case flow == "":
		a.leave()
	case a.seat == nil:
		return a.acquire(ctx)
	default:
		a.seat.Move(flow)
		a.seat.Does(a.work)
	}
	return nil
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
