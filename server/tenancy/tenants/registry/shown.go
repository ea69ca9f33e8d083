package registry

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
)

// shown is a store whose answers have what is not stored. Watches go without: they would not tell
// of its changes. Upstream's own hook for this, the Decorator of a store, is not in every version.
type shown struct {
	*genericregistry.Store
	// show adds to an object or a list, nil for nothing.
	show func(runtime.Object)
}

func (s shown) of(obj runtime.Object, err error) (runtime.Object, error) {
	if err == nil && s.show != nil {
		s.show(obj)
	}
	return obj, err
}

// Get implements rest.Getter.
func (s shown) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.of(s.Store.Get(ctx, name, options))
}

// List implements rest.Lister.
func (s shown) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	return s.of(s.Store.List(ctx, options))
}

// Create implements rest.Creater.
func (s shown) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	return s.of(s.Store.Create(ctx, obj, validate, options))
}

// Update implements rest.Updater.
func (s shown) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	obj, created, err := s.Store.Update(ctx, name, info, create, update, forceCreate, options)
	obj, err = s.of(obj, err)
	return obj, created, err
}

// Delete implements rest.GracefulDeleter.
func (s shown) Delete(
	ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	obj, gone, err := s.Store.Delete(ctx, name, validate, options)
	obj, err = s.of(obj, err)
	return obj, gone, err
}
