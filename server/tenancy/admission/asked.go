package admission

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/a4s-io/a4s/internal/space"
)

// author is who wrote what a request stores in the space of a tenant.
type author int

const (
	// theSystem is controllers, nodes and administrators of the cluster. The
	// tenant's admission is not asked, so that nothing in the object is the
	// tenant's.
	theSystem author = iota
	// aUser is a user or a service account of the tenant.
	aUser
	// aWorkload is a controller that writes what a user of the tenant could have
	// written. The tenant's admission is asked, and what comes out is judged as
	// the tenant's write.
	aWorkload
)

// accountsOfControllers is what the names of the controllers' users begin with.
const accountsOfControllers = "system:serviceaccount:kube-system:"

// makes says what the controllers of workloads make from templates of a
// tenant's users. Operators have their sidecars injected there.
func makes(controller string, r schema.GroupResource) bool {
	pods := r == schema.GroupResource{Resource: "pods"}
	claims := r == schema.GroupResource{Resource: "persistentvolumeclaims"}
	revisions := r == schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}
	switch controller {
	case "deployment-controller":
		return r == schema.GroupResource{Group: "apps", Resource: "replicasets"}
	case "replicaset-controller", "replication-controller", "job-controller":
		return pods
	case "statefulset-controller":
		return pods || claims || revisions
	case "daemon-set-controller":
		return pods || revisions
	case "cronjob-controller":
		return r == schema.GroupResource{Group: "batch", Resource: "jobs"}
	}
	return false
}

// authorOf tells who wrote what is in a request.
func authorOf(attr admission.Attributes) author {
	u := attr.GetUserInfo()
	if !space.IsSystem(space.TenantOf(u)) {
		return aUser
	}
	op := attr.GetOperation()
	if u == nil || attr.GetSubresource() != "" || op != admission.Create && op != admission.Update {
		return theSystem
	}
	controller, ok := strings.CutPrefix(u.GetName(), accountsOfControllers)
	if ok && makes(controller, attr.GetResource().GroupResource()) {
		return aWorkload
	}
	return theSystem
}

// asks reports whether a tenant's admission is asked about a request: never where
// the tenant is being deleted, which nothing of it may hold up.
func (a *Admission) asks(tenant string, who author) bool {
	return who != theSystem && !a.opts.Tenants.Terminating(tenant)
}
