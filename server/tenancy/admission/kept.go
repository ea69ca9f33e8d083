package admission

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
)

// errKeeperUnknown is an answer that could not be had: whether a template keeps an object.
var errKeeperUnknown = errors.New("looking for what the template of the tenant keeps")

// checkKept refuses what users of a tenant make, change or delete of what its TenantTemplate keeps. Which
// objects these are is in the status of the Tenant, where no tenant writes: nothing in an object says it.
// What is made below one, a token of a service account for instance, is no change of it. One that is made in
// the place of one that is not there would have fields, owners and finalizers that the template does not say.
func (g *guard) checkKept(ctx context.Context, tenant string, attr admission.Attributes) error {
	switch attr.GetOperation() {
	case admission.Update, admission.Delete:
	case admission.Create:
		if attr.GetSubresource() != "" {
			return nil
		}
	default:
		return nil
	}
	namespace, name := attr.GetNamespace(), attr.GetName()
	// Of a collection that is deleted, the request names none.
	if is, err := meta.Accessor(attr.GetOldObject()); err == nil && is.GetName() != "" {
		namespace, name = is.GetNamespace(), is.GetName()
	}
	template, object, err := g.tenants.Keeper(ctx, tenant, attr.GetResource().GroupResource(), namespace, name)
	if err != nil {
		return fmt.Errorf("%w: %w", errKeeperUnknown, err)
	}
	if template == "" {
		return nil
	}
	return fmt.Errorf("the TenantTemplate %s keeps the %s as it is: users of the tenant cannot make, change or "+
		"delete it; an administrator of the cluster can change the template", template, object)
}
