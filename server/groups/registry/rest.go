package registry

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/controlplane/apiregistry"
)

// It happens when the package is initialized: a scheme must not change once servers and
// controllers read it.
var _ = registered()

func registered() bool {
	partitionapi.AddConfigsToScheme(legacyscheme.Scheme)
	return true
}

// Storage returns the REST storage of configurations, by path.
func Storage(getter generic.RESTOptionsGetter) (map[string]rest.Storage, error) {
	store, err := apiregistry.Kind[*partitionapi.DataPartitionConfig]{
		Resource: partitionapi.Resource, Singular: partitionapi.Singular,
		New:      func() runtime.Object { return &partitionapi.DataPartitionConfig{} },
		NewList:  func() runtime.Object { return &partitionapi.DataPartitionConfigList{} },
		Strategy: newStrategy(), Columns: configColumns(),
	}.Store(getter)
	if err != nil {
		return nil, err
	}
	return map[string]rest.Storage{partitionapi.Resource: &configREST{store}}, nil
}

// configREST refuses a second configuration of a group.
type configREST struct{ *genericregistry.Store }

var (
	_ rest.StandardStorage    = (*configREST)(nil)
	_ rest.ShortNamesProvider = (*configREST)(nil)
)

// ShortNames implements rest.ShortNamesProvider.
func (r *configREST) ShortNames() []string { return []string{"dpc"} }

// Create implements rest.Creater.
func (r *configREST) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	return r.Store.Create(ctx, obj, apiregistry.Then(validate, func(ctx context.Context, obj runtime.Object) error {
		return r.unique(ctx, obj.(*partitionapi.DataPartitionConfig))
	}), options)
}

// Update implements rest.Updater.
func (r *configREST) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	check := func(ctx context.Context, obj, old runtime.Object) error {
		c, was := obj.(*partitionapi.DataPartitionConfig), old.(*partitionapi.DataPartitionConfig)
		if c.ServiceGroupID == was.ServiceGroupID && slices.Equal(c.Tenants, was.Tenants) {
			return nil
		}
		return r.unique(ctx, c)
	}
	return r.Store.Update(ctx, name, info, create, apiregistry.ThenUpdate(update, check), forceCreate, options)
}

// unique refuses a configuration whose group, or one of whose tenants, another one has.
func (r *configREST) unique(ctx context.Context, c *partitionapi.DataPartitionConfig) error {
	obj, err := r.List(ctx, nil)
	if err != nil {
		return fmt.Errorf("reading the other configurations: %w", err)
	}
	for _, other := range obj.(*partitionapi.DataPartitionConfigList).Items {
		if other.Name == c.Name {
			continue
		}
		if other.ServiceGroupID == c.ServiceGroupID {
			return apierrors.NewConflict(partitionapi.GroupResource(), c.Name,
				fmt.Errorf("service group %q has the configuration %q already: change that one, or delete it first",
					c.ServiceGroupID, other.Name))
		}
		for _, tenant := range c.Tenants {
			if slices.Contains(other.Tenants, tenant) {
				return apierrors.NewConflict(partitionapi.GroupResource(), c.Name,
					fmt.Errorf("the configuration %q of service group %q lists tenant %q: take it out there first",
						other.Name, other.ServiceGroupID, tenant))
			}
		}
	}
	return nil
}

// sameRange reports whether two configurations say the same.
func sameRange(a, b *partitionapi.DataPartitionConfig) bool {
	return a.RangeStart == b.RangeStart && a.IsRangeStartValid == b.IsRangeStartValid &&
		a.RangeEnd == b.RangeEnd && a.IsRangeEndValid == b.IsRangeEndValid &&
		a.ServiceGroupID == b.ServiceGroupID && slices.Equal(a.Tenants, b.Tenants)
}
