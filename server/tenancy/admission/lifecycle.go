package admission

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/reach/inside"
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
	nativeToken(attr)
	if tenant := l.admission.tenantOf(ctx, attr); !space.IsSystem(tenant) {
		if err := l.admission.guard.fill(ctx, tenant, attr); err != nil {
			return admission.NewForbidden(attr, err)
		}
		if err := l.admission.checkNodePorts(ctx, tenant, attr); err != nil {
			return err
		}
	}
	if m, ok := l.Interface.(admission.MutationInterface); ok {
		return m.Admit(ctx, attr, o)
	}
	return nil
}

// checkNodePorts comes before upstream takes the ports, which it does before anything
// is validated, and again when the tenant's admission may have asked for more.
func (a *Admission) checkNodePorts(ctx context.Context, tenant string, attr admission.Attributes) error {
	service, ok := attr.GetObject().(*core.Service)
	if !ok || attr.GetSubresource() != "" || attr.IsDryRun() {
		return nil
	}
	old, _ := attr.GetOldObject().(*core.Service)
	return a.opts.NodePorts(ctx, tenant, service, old)
}

// Validate implements admission.ValidationInterface: what webhooks have made
// of an object is what counts.
func (l *lifecycle) Validate(ctx context.Context, attr admission.Attributes, o admission.ObjectInterfaces) error {
	if tenant := l.admission.tenantOf(ctx, attr); !space.IsSystem(tenant) {
		byTenant := authorOf(attr) != theSystem
		if byTenant {
			switch err := l.admission.guard.checkKept(ctx, tenant, attr); {
			case errors.Is(err, errKeeperUnknown):
				return apierrors.NewServiceUnavailable(err.Error())
			case err != nil:
				return admission.NewForbidden(attr, err)
			}
		}
		switch err := l.admission.guard.check(ctx, tenant, byTenant, attr); {
		case errors.Is(err, inside.ErrUnknown), errors.Is(err, errNodesUnknown):
			return apierrors.NewServiceUnavailable(err.Error())
		case err != nil:
			return admission.NewForbidden(attr, err)
		}
	}
	if v, ok := l.Interface.(admission.ValidationInterface); ok {
		return v.Validate(ctx, attr, o)
	}
	return nil
}

// check looks at what is made. Upstream's own check of the namespace comes
// after it, but knows only namespaces that are being deleted already, and waits
// for those that are gone in case they are new: controllers which replace what
// goes with a tenant would stand in a queue for that.
func (l *lifecycle) check(ctx context.Context, attr admission.Attributes) error {
	resource := attr.GetResource().GroupResource()
	namespaces := resource == schema.GroupResource{Resource: "namespaces"}
	if namespaces && attr.GetOperation() == admission.Delete {
		return l.checkDelete(attr)
	}
	if attr.GetOperation() != admission.Create || attr.GetSubresource() != "" {
		return nil
	}
	tenant := l.admission.tenantOf(ctx, attr)
	if space.IsSystem(tenant) {
		return nil
	}
	k, known := l.admission.kinds.Resource(resource.Group, resource.Resource)
	switch {
	case known && kinds.IsReview(k.Group):
		return nil
	case resource == schema.GroupResource{Group: "apps", Resource: "daemonsets"}:
		// Tenants were refused before. Their administrators' own would run on all nodes, too.
		return admission.NewForbidden(attr,
			fmt.Errorf("%s, or make it in a namespace of the system, without tenant %s", k.Why, tenant))
	}
	exists, err := l.admission.opts.Tenants.Exists(ctx, tenant)
	switch {
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("looking for the tenant: %w", err))
	case !exists:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "tenants"}, tenant)
	case l.admission.opts.Tenants.Terminating(tenant):
		return terminating(attr, tenant)
	}
	return nil
}

// terminating is a refusal by which the controllers of the cluster know, as by
// that of a namespace, that they need not try again.
func terminating(attr admission.Attributes, tenant string) error {
	err := admission.NewForbidden(attr,
		fmt.Errorf("unable to create new content in tenant %s because it is being terminated", tenant))
	var status *apierrors.StatusError
	if attr.GetNamespace() != "" && errors.As(err, &status) && status.ErrStatus.Details != nil {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("tenant %s is being terminated", tenant),
			Field: "metadata.namespace",
		})
	}
	return err
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
		return apierrors.NewForbidden(attr.GetResource().GroupResource(), native,
			errors.New("this namespace may not be deleted"))
	}
	return nil
}
