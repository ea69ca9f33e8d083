package fairness

import (
	"context"
	"sync"

	flowcontrol "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// Group is what the flow schema of tenants matches. It exists for priority and
// fairness only, no request has it.
const Group = "a4s:tenants"

// Wrap makes the tenant the user that flows are distinguished by.
func Wrap(inner utilflowcontrol.Interface) utilflowcontrol.Interface { return byTenant{inner} }

type byTenant struct{ utilflowcontrol.Interface }

// Handle implements utilflowcontrol.Interface. A request that waits here for its turn waits
// without its seat. Behind, it has its seat until exec has ended: when a request has taken
// too long it is answered, while what was begun for it goes on.
func (b byTenant) Handle(ctx context.Context, digest utilflowcontrol.RequestDigest,
	note func(*flowcontrol.FlowSchema, *flowcontrol.PriorityLevelConfiguration, string),
	estimate func() fcrequest.WorkEstimate, queueNote fq.QueueNoteFn, exec func(),
) {
	digest.User = flowOf(digest.User)
	seat := fairqueue.Of(ctx)
	if seat == nil {
		b.Interface.Handle(ctx, digest, note, estimate, queueNote, exec)
		return
	}
	seat.Hold()
	defer seat.Release()
	seat.BeginWait()
	admitted := sync.OnceFunc(seat.EndWait)
	defer admitted()
	b.Interface.Handle(ctx, digest, note, estimate, queueNote, func() {
		admitted()
		seat.Need()
		exec()
	})
}

func flowOf(u user.Info) user.Info {
	if u == nil {
		return u
	}
	tenant := authn.TenantOf(u)
	if space.IsSystem(tenant) {
		return u
	}
	return &user.DefaultInfo{Name: "tenant:" + tenant, Groups: []string{Group, user.AllAuthenticated}}
}
