package fairness

import (
	"context"

	flowcontrol "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// Wrap admits what has a seat, and makes the tenant of everybody else the user that
// flows are distinguished by.
func Wrap(inner utilflowcontrol.Interface) utilflowcontrol.Interface { return byTenant{inner} }

type byTenant struct{ utilflowcontrol.Interface }

// Handle implements utilflowcontrol.Interface. What has a seat was admitted by the edge, which
// tells tenants apart. It waits for nobody here, and nobody for it: a tenant's hook that does
// not answer holds none of the seats that all tenants would share. It has its own until exec
// has ended: when a request has taken too long it is answered, while what was begun for it
// goes on.
func (b byTenant) Handle(ctx context.Context, digest utilflowcontrol.RequestDigest,
	note func(*flowcontrol.FlowSchema, *flowcontrol.PriorityLevelConfiguration, string),
	estimate func() fcrequest.WorkEstimate, queueNote fq.QueueNoteFn, exec func(),
) {
	if seat := fairqueue.Of(ctx); seat != nil {
		seat.Hold()
		defer seat.Release()
		exec()
		return
	}
	digest.User = flowOf(digest.User)
	b.Interface.Handle(ctx, digest, note, estimate, queueNote, exec)
}

func flowOf(u user.Info) user.Info {
	if u == nil {
		return u
	}
	tenant := space.TenantOf(u)
	if space.IsSystem(tenant) {
		return u
	}
	return &user.DefaultInfo{Name: "tenant:" + tenant, Groups: []string{user.AllAuthenticated}}
}
