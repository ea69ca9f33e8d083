package admission

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
)

// checkKept refuses what users of a tenant change or delete of what its TenantTemplate keeps. Which
// objects these are is in the status of the Tenant, where no tenant writes: nothing in an object says it.
// What is made below one, a token of a service account for instance, is no change of it.
func (g *guard) checkKept(tenant string, attr admission.Attributes) error {
	if op := attr.GetOperation(); op != admission.Update && op != admission.Delete {
		return nil
	}
	namespace, name := attr.GetNamespace(), attr.GetName()
	// Of a collection that is deleted, the request names none.
	if is, err := meta.Accessor(attr.GetOldObject()); err == nil && is.GetName() != "" {
		namespace, name = is.GetNamespace(), is.GetName()
	}
	template, object := g.tenants.Keeper(tenant, attr.GetResource().GroupResource(), namespace, name)
	if template == "" {
		return nil
	}
	return fmt.Errorf("the TenantTemplate %s keeps the %s as it is: users of the tenant cannot change or delete it; "+
		"an administrator of the cluster can change the template", template, object)
}
