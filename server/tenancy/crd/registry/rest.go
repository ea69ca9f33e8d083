package registry

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/crd"
)

// Options configures the storage.
type Options struct {
	Scheme *runtime.Scheme
	// Getter is where CRDs are stored, tenants' ones under their keys.
	Getter generic.RESTOptionsGetter
	// Forced reports whether the system forces a CRD of this native name
	// on every tenant.
	Forced func(name string) bool
	// Shown adds what tenants are shown of the system's.
	Shown *Shown
	// Taken tells the groups that API servers serve, and tenants cannot define.
	Taken func(group string) bool
	// Bounds are what the CRDs of a tenant can be, and Sizes what they
	// are, by native name.
	Bounds func(tenant string) crd.Bounds
	Sizes  func(tenant string) map[string]crd.Size
}

// Storage is the storage of CRDs and of their status.
func Storage(o Options) (map[string]rest.Storage, error) {
	inner, err := customresourcedefinition.NewREST(o.Scheme, o.Getter)
	if err != nil {
		return nil, fmt.Errorf("making the storage of definitions: %w", err)
	}
	rules := native{customresourcedefinition.NewStrategy(o.Scheme), o.Taken,
		&bounded{bounds: o.Bounds, sizes: o.Sizes, recent: map[string]map[string]recent{}}}
	inner.CreateStrategy, inner.UpdateStrategy = rules, rules
	d := &store{REST: inner, forced: o.Forced, shown: o.Shown}
	return map[string]rest.Storage{
		"customresourcedefinitions": d,
		"customresourcedefinitions/status": &status{
			StatusREST: customresourcedefinition.NewStatusREST(o.Scheme, inner),
			of:         d,
		},
	}, nil
}

// store keeps the names of forced CRDs from tenants, and shows them those
// of the system that serve them.
type store struct {
	*customresourcedefinition.REST
	forced func(name string) bool
	shown  *Shown
}

// taken reports whether a tenant meets the name of a forced CRD.
func (d *store) taken(composite string) (native string, taken bool) {
	tenant, native := space.SplitClusterName(composite)
	return native, tenant != space.System && d.forced(native)
}

func (d *store) forbid(composite string) error {
	return apierrors.NewForbidden(apiextensions.Resource("customresourcedefinitions"), composite,
		errors.New("the administrators of the cluster have made a definition of this name that serves every tenant "+
			"(its sharing policy is forced), and only they can change it"))
}

// Create implements rest.Creater. Clients that bring CRDs along take
// the answer for what it is: there is one already.
func (d *store) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	if native, taken := d.taken(accessor.GetName()); taken {
		err := apierrors.NewAlreadyExists(apiextensions.Resource("customresourcedefinitions"), native)
		err.ErrStatus.Message += ": the administrators of the cluster have made a definition of this name that " +
			"serves every tenant (its sharing policy is forced)"
		return nil, err
	}
	return d.REST.Create(ctx, obj, validate, options)
}

// Update implements rest.Updater.
func (d *store) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	if err := d.refuse(ctx, name, forceAllowCreate, false); err != nil {
		return nil, false, err
	}
	return d.REST.Update(ctx, name, info, create, update, forceAllowCreate, options)
}

// status is the status of CRDs.
type status struct {
	*customresourcedefinition.StatusREST
	of *store
}

// Get implements rest.Getter.
func (s *status) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.of.Get(ctx, name, options)
}

// Update implements rest.Updater.
func (s *status) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	if err := s.of.refuse(ctx, name, false, false); err != nil {
		return nil, false, err
	}
	return s.StatusREST.Update(ctx, name, info, create, update, forceAllowCreate, options)
}

// Delete implements rest.GracefulDeleter. A tenant that is being deleted gives
// up what it had defined before the name was taken.
func (d *store) Delete(
	ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	if err := d.refuse(ctx, name, false, true); err != nil {
		return nil, false, err
	}
	return d.REST.Delete(ctx, name, validate, options)
}

// DeleteCollection implements rest.CollectionDeleter. Upstream's takes the
// CRDs away and leaves their objects behind; here each is deleted as it
// would be by its name.
func (d *store) DeleteCollection(
	ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
	list *internalversion.ListOptions,
) (runtime.Object, error) {
	found, err := d.REST.List(ctx, list)
	if err != nil {
		return nil, err
	}
	var deleted []runtime.Object
	err = meta.EachListItem(found, func(obj runtime.Object) error {
		accessor, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		out, _, err := d.Delete(ctx, accessor.GetName(), validate, options.DeepCopy())
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err == nil {
			deleted = append(deleted, out)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := d.NewListFunc()
	return out, meta.SetList(out, deleted)
}

// ofSystem reports whether a user of the system asks.
func ofSystem(ctx context.Context) bool {
	u, ok := request.UserFrom(ctx)
	return !ok || space.IsSystem(space.TenantOf(u))
}
