package edge

import (
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
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

// work is the kind of work that a request of a user is.
func (r *request) work() fairqueue.Work {
	switch {
	case r.resource == nil:
		return ledger.Documents
	case r.verb == "get":
		return ledger.Gets
	case r.verb == "list":
		return ledger.Lists
	case r.verb == "watch":
		return ledger.Watches
	case r.long:
		return ledger.Connections
	}
	return ledger.Writes
}
