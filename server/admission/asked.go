package admission

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/authn"
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

// workloads are the controllers that make objects from templates of a tenant's
// users, and what they make. Operators have their sidecars injected there.
func workloads() map[string][]schema.GroupResource {
	pods := schema.GroupResource{Resource: "pods"}
	claims := schema.GroupResource{Resource: "persistentvolumeclaims"}
	revisions := schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}
	return map[string][]schema.GroupResource{
		"deployment-controller":  {{Group: "apps", Resource: "replicasets"}},
		"replicaset-controller":  {pods},
		"replication-controller": {pods},
		"statefulset-controller": {pods, claims, revisions},
		"daemon-set-controller":  {pods, revisions},
		"job-controller":         {pods},
		"cronjob-controller":     {{Group: "batch", Resource: "jobs"}},
	}
}

// authorOf tells who wrote what is in a request.
func authorOf(attr admission.Attributes) author {
	u := attr.GetUserInfo()
	if !space.IsSystem(authn.TenantOf(u)) {
		return aUser
	}
	op := attr.GetOperation()
	if u == nil || attr.GetSubresource() != "" || op != admission.Create && op != admission.Update {
		return theSystem
	}
	for controller, resources := range workloads() {
		if u.GetName() == accountsOfControllers+controller {
			if slices.Contains(resources, attr.GetResource().GroupResource()) {
				return aWorkload
			}
		}
	}
	return theSystem
}

// asks tells whether a tenant's admission is asked about a request: never where
// the tenant is being deleted, which nothing of it may hold up.
func (a *Admission) asks(tenant string, who author) bool {
	return who != theSystem && !a.opts.Tenants.Terminating(tenant)
}
