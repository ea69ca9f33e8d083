package serving

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/a4s-io/a4s/server/controlplane/apistorage"
)

// optionsInShares has a handler that tenants have in common store in each of them.
type optionsInShares struct{ common *common }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o *optionsInShares) GetRESTOptions(r schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := o.common.commons.options.GetRESTOptions(r, example)
	opts.Decorator = apistorage.Make(func(s apistorage.Storing) (storage.Interface, factory.DestroyFunc, error) {
		return &inShares{optionsInShares: o, resource: r, storing: s}, func() {}, nil
	}).Decorator()
	// Upstream would count the objects now and then, which are of no tenant in particular.
	opts.CountMetricPollPeriod = 0
	return opts, err
}

// inShares is the storage of one version of a resource at a handler that tenants have in
// common. Each tenant has its own storage and cache, which reach nothing but its objects,
// and the request says which one it is. Without a tenant there is none.
type inShares struct {
	*optionsInShares
	resource schema.GroupResource
	storing  apistorage.Storing
}

var _ storage.Interface = &inShares{}

var errNobody = errors.New("a request for custom resources of tenants is of no tenant")

// forTenant makes the storage of a tenant.
func (m *inShares) forTenant(tenant string) (*stored, error) {
	opts, err := m.common.commons.bound(tenant).GetRESTOptions(m.resource, nil)
	if err != nil {
		return nil, fmt.Errorf("finding where the %s of tenant %s are: %w", m.resource, tenant, err)
	}
	made, destroy, err := apistorage.Maker(opts.Decorator)(m.storing)
	if err != nil {
		return nil, fmt.Errorf("making the storage of the %s of tenant %s: %w", m.resource, tenant, err)
	}
	return &stored{made, destroy}, nil
}

func (m *inShares) of(ctx context.Context) (storage.Interface, error) {
	v, ok := visitOf(ctx)
	if !ok || v.share.common != m.common {
		return nil, errNobody
	}
	return v.share.storage(m)
}

// Versioner implements storage.Interface.
func (m *inShares) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

// Create implements storage.Interface.
func (m *inShares) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	s, err := m.of(ctx)
	if err != nil {
		return err
	}
	return s.Create(ctx, key, obj, out, ttl)
}

// Delete implements storage.Interface.
func (m *inShares) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions,
) error {
	s, err := m.of(ctx)
	if err != nil {
		return err
	}
	return s.Delete(ctx, key, out, preconditions, validate, cached, opts)
}

// Watch implements storage.Interface. What has begun ends with the storage, and does not hold
// it.
func (m *inShares) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	s, err := m.of(ctx)
	if err != nil {
		return nil, err
	}
	if v, ok := visitOf(ctx); ok {
		defer v.leave()
	}
	return s.Watch(ctx, key, opts)
}

// Get implements storage.Interface.
func (m *inShares) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	s, err := m.of(ctx)
	if err != nil {
		return err
	}
	return s.Get(ctx, key, opts, out)
}

// GetList implements storage.Interface.
func (m *inShares) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	s, err := m.of(ctx)
	if err != nil {
		return err
	}
	return s.GetList(ctx, key, opts, list)
}

// GuaranteedUpdate implements storage.Interface.
func (m *inShares) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object,
) error {
	s, err := m.of(ctx)
	if err != nil {
		return err
	}
	return s.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, update, cached)
}

// Stats implements storage.Interface.
func (m *inShares) Stats(ctx context.Context) (storage.Stats, error) {
	s, err := m.of(ctx)
	if err != nil {
		return storage.Stats{}, err
	}
	return s.Stats(ctx)
}

// ReadinessCheck implements storage.Interface. Requests wait for the cache of their tenant.
func (m *inShares) ReadinessCheck() error { return nil }

// RequestWatchProgress implements storage.Interface.
func (m *inShares) RequestWatchProgress(ctx context.Context) error {
	s, err := m.of(ctx)
	if err != nil {
		return err
	}
	return s.RequestWatchProgress(ctx)
}

// GetCurrentResourceVersion implements storage.Interface.
func (m *inShares) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	s, err := m.of(ctx)
	if err != nil {
		return 0, err
	}
	return s.GetCurrentResourceVersion(ctx)
}

// EnableResourceSizeEstimation implements storage.Interface. It is for what a cache is over.
func (m *inShares) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// CompactRevision implements storage.Interface. It is for what a cache is over.
func (m *inShares) CompactRevision() int64 { return 0 }
