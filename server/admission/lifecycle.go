package admission

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// lifecycle does for tenants what NamespaceLifecycle does for namespaces:
// nothing is made in a space that does not exist or is being deleted.
type lifecycle struct {
	admission.Interface
	admission *Admission
}

// Admit implements admission.MutationInterface.
func (l *lifecycle) Admit(ctx context.Context, attr admission.Attributes, o admission.ObjectInterfaces) error {
	if err := l.check(ctx, attr); err != nil {
		return err
	}
	if err := checkBinding(attr); err != nil {
		return err
	}
	restoreClaim(attr)
	if m, ok := l.Interface.(admission.MutationInterface); ok {
		return m.Admit(ctx, attr, o)
	}
	return nil
}

// Validate implements admission.ValidationInterface: what webhooks have made
// of an object is what counts.
func (l *lifecycle) Validate(ctx context.Context, attr admission.Attributes, o admission.ObjectInterfaces) error {
	if tenant := l.admission.tenantOf(ctx, attr); !space.IsSystem(tenant) {
		if err := l.admission.guard.check(ctx, tenant, attr); err != nil {
			return admission.NewForbidden(attr, err)
		}
	}
	if v, ok := l.Interface.(admission.ValidationInterface); ok {
		return v.Validate(ctx, attr, o)
	}
	return nil
}

// check looks at what is cluster-scoped, Namespaces among it: what lives in a
// namespace is covered by upstream's own check of that namespace.
func (l *lifecycle) check(ctx context.Context, attr admission.Attributes) error {
	resource := attr.GetResource().GroupResource()
	namespaces := resource == schema.GroupResource{Resource: "namespaces"}
	if namespaces && attr.GetOperation() == admission.Delete {
		return l.checkDelete(attr)
	}
	if attr.GetOperation() != admission.Create || attr.GetSubresource() != "" || (attr.GetNamespace() != "" && !namespaces) {
		return nil
	}
	tenant := l.admission.tenantOf(ctx, attr)
	if space.IsSystem(tenant) {
		return nil
	}
	if k, ok := l.admission.kinds.Resource(resource.Group, resource.Resource); ok && kinds.IsReview(k.Group) {
		return nil
	}
	exists, err := l.admission.opts.Tenants.Exists(ctx, tenant)
	switch {
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("looking for the tenant: %w", err))
	case !exists:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "tenants"}, tenant)
	case l.admission.opts.Tenants.Terminating(tenant):
		return admission.NewForbidden(attr, fmt.Errorf("unable to create new content in tenant %s because it is being terminated", tenant))
	}
	return nil
}

// checkDelete keeps the namespaces that every space has, as upstream does for
// those of the system.
func (l *lifecycle) checkDelete(attr admission.Attributes) error {
	tenant, native := space.SplitNamespace(attr.GetName())
	if space.IsSystem(tenant) || l.admission.opts.Tenants.Terminating(tenant) {
		return nil
	}
	switch native {
	case "default", "kube-system", "kube-public":
		return apierrors.NewForbidden(attr.GetResource().GroupResource(), native, errors.New("this namespace may not be deleted"))
	}
	return nil
}
