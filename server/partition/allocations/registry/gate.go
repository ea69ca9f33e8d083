package registry

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/a4s-io/a4s/server/partition/allocations"
)

// gated keeps partitions from writing while the gate is closed: what they would add their
// share to is not what is on the node.
type gated struct {
	*genericregistry.Store
	closed func() bool
}

var _ rest.StandardStorage = (*gated)(nil)

func (g *gated) check(ctx context.Context) error {
	if !g.closed() {
		return nil
	}
	if u, ok := request.UserFrom(ctx); ok && strings.HasPrefix(u.GetName(), allocations.UserPrefix) {
		return apierrors.NewServiceUnavailable("this partition finds out what is on its nodes, because it was " +
			"restored from a snapshot or is about to share them")
	}
	return nil
}

// Create implements rest.Creater.
func (g *gated) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	if err := g.check(ctx); err != nil {
		return nil, err
	}
	return g.Store.Create(ctx, obj, validate, options)
}

// Update implements rest.Updater.
func (g *gated) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	if err := g.check(ctx); err != nil {
		return nil, false, err
	}
	return g.Store.Update(ctx, name, info, create, update, forceCreate, options)
}
