package apiregistry

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/a4s-io/a4s/internal/coreapi"
)

// Strategy decides what requests may write.
type Strategy[T coreapi.Object] struct {
	// Unconditional updates need not say which version they change.
	Unconditional bool
	// PrepareNew and PrepareChanged set what requests do not decide. Nil sets nothing.
	PrepareNew     func(obj T)
	PrepareChanged func(obj, old T)
	// Check finds what is wrong with an object; old is nil for a new one.
	Check func(ctx context.Context, obj, old T) field.ErrorList
}

var (
	_ rest.RESTCreateStrategy = Strategy[coreapi.Object]{}
	_ rest.RESTUpdateStrategy = Strategy[coreapi.Object]{}
	_ rest.RESTDeleteStrategy = Strategy[coreapi.Object]{}
)

// NamespaceScoped implements rest.RESTCreateStrategy.
func (Strategy[T]) NamespaceScoped() bool { return false }

// AllowCreateOnUpdate implements rest.RESTUpdateStrategy.
func (Strategy[T]) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate implements rest.RESTUpdateStrategy.
func (s Strategy[T]) AllowUnconditionalUpdate(context.Context) bool { return s.Unconditional }

// Canonicalize implements rest.RESTCreateStrategy.
func (Strategy[T]) Canonicalize(runtime.Object) {}

// ObjectKinds implements runtime.ObjectTyper.
func (Strategy[T]) ObjectKinds(obj runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return legacyscheme.Scheme.ObjectKinds(obj)
}

// Recognizes implements runtime.ObjectTyper.
func (Strategy[T]) Recognizes(gvk schema.GroupVersionKind) bool {
	return legacyscheme.Scheme.Recognizes(gvk)
}

// GenerateName implements names.NameGenerator.
func (Strategy[T]) GenerateName(base string) string {
	return names.SimpleNameGenerator.GenerateName(base)
}

// PrepareForCreate implements rest.RESTCreateStrategy.
func (s Strategy[T]) PrepareForCreate(_ context.Context, obj runtime.Object) {
	if s.PrepareNew != nil {
		s.PrepareNew(obj.(T))
	}
}

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (s Strategy[T]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	if s.PrepareChanged != nil {
		s.PrepareChanged(obj.(T), old.(T))
	}
}

// Validate implements rest.RESTCreateStrategy.
func (s Strategy[T]) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	var none T
	return s.Check(ctx, obj.(T), none)
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s Strategy[T]) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return s.Check(ctx, obj.(T), old.(T))
}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (Strategy[T]) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (Strategy[T]) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}
