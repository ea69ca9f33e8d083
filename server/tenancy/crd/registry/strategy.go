package registry

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/a4s-io/a4s/internal/space"
	server "github.com/a4s-io/a4s/server/tenancy/crd"
)

// strategies are upstream's rules for CRDs.
type strategies interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// native has upstream's rules see CRDs under their native names: the
// name of a CRD has to be made of its group and its plural.
type native struct {
	strategies
	taken func(group string) bool
	*bounded
}

// Validate implements rest.RESTCreateStrategy.
func (n native) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	errs := append(n.strategies.Validate(ctx, nativeForm(obj)), checkSharing(obj, nil)...)
	return append(append(errs, n.checkGroup(obj)...), n.checkSize(obj, nil)...)
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (n native) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	errs := append(n.strategies.ValidateUpdate(ctx, nativeForm(obj), nativeForm(old)), checkSharing(obj, old)...)
	return append(errs, n.checkSize(obj, old)...)
}

// checkGroup refuses tenants' new CRDs in groups that are somebody's: of
// what such a group has, those who serve it have the say. Groups that only look
// like Kubernetes' own are free, for a chart brings along what is in them.
func (n native) checkGroup(obj runtime.Object) field.ErrorList {
	crd, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok || !n.taken(crd.Spec.Group) {
		return nil
	}
	if tenant, _ := space.SplitClusterName(crd.Name); tenant == space.System {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "group"), crd.Spec.Group,
		"the API of the cluster serves this group itself: define custom resources in another one")}
}

func nativeForm(obj runtime.Object) runtime.Object {
	crd, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return obj
	}
	out := *crd
	_, out.Name = space.SplitClusterName(crd.Name)
	return &out
}

// checkSharing refuses a CRD of the system that does not say clearly
// who is served by it. In the space of a tenant the words mean nothing. What
// was there before stays writable.
func checkSharing(obj, old runtime.Object) field.ErrorList {
	crd, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return nil
	}
	if tenant, _ := space.SplitClusterName(crd.Name); tenant != space.System {
		return nil
	}
	_, err := server.ParseSharing(&metav1.ObjectMeta{Annotations: crd.Annotations, Labels: crd.Labels})
	if err == nil {
		return nil
	}
	if before, ok := old.(*apiextensions.CustomResourceDefinition); ok {
		if _, wrong := server.ParseSharing(&metav1.ObjectMeta{Annotations: before.Annotations,
			Labels: before.Labels}); wrong != nil {
			return nil
		}
	}
	return field.ErrorList{
		field.Invalid(field.NewPath("metadata", "annotations"), crd.Annotations[server.SharingPolicy], err.Error()),
	}
}
