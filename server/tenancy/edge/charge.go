package edge

import (
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
	"github.com/a4s-io/a4s/server/tenancy/fairness/ledger"
)

// chargedControllers are the accounts of the controllers that work for the tenants' objects and
// have a gate a tenant in front of their queues (server/controlplane/controllers): what they
// do about an object waits in the flow of its tenant. All others, a kubelet or the scheduler,
// work for several tenants in turn, and must not wait for one of them.
var chargedControllers = map[string]bool{
	"system:serviceaccount:kube-system:cronjob-controller":     true,
	"system:serviceaccount:kube-system:deployment-controller":  true,
	"system:serviceaccount:kube-system:job-controller":         true,
	"system:serviceaccount:kube-system:replicaset-controller":  true,
	"system:serviceaccount:kube-system:replication-controller": true,
	"system:serviceaccount:kube-system:statefulset-controller": true,
}

// charged is the tenant whose flow the request waits in. A controller sends its events one after
// the other, so those of one tenant would wait for another's.
func (r *request) charged() string {
	if r.resource != nil && r.resource.resource != "events" && chargedControllers[r.user.GetName()] {
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
