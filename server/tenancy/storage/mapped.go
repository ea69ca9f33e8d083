package storage

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/listsize"
)

// mapped is the storage of one resource. What it does not override does not
// depend on keys.
type mapped struct {
	storage.Interface
	keys    *objectKeys
	border  confinement
	destroy factory.DestroyFunc
	newList func() runtime.Object
	// within is where the cache has the objects: the prefix, or that of the one tenant that is reached.
	within string
	stamps bool
	// roles are the ClusterRoles of each space.
	roles rolesInSpaces
}

// confinement keeps reads and writes in the space that they are for.
type confinement struct {
	keys *objectKeys
	// scopes is set when the cache distinguishes watches by space in place of names.
	scopes bool
}

// objectKeys is where the objects of a resource are, and whose they are.
type objectKeys struct {
	layout   space.Layout
	prefix   string
	resource schema.GroupResource
	newFunc  func() runtime.Object
	class    kinds.Class
	// why tells tenants why they do not have what is the system's.
	why string
	// open reports what tenants see, where they see a part or nothing of what is
	// not theirs.
	open func(runtime.Object) bool
	// sees reports whether a tenant sees all there is in spite of open, nil for none.
	sees func(ctx context.Context, tenant string) (bool, error)
	// triggers is set when the cache can distinguish watches by tenant.
	triggers bool
	// custom is set for custom resources, bound when they are one tenant's.
	custom bool
	bound  string
}

// key maps a composite key to the stored one.
func (m *objectKeys) key(key string) string {
	if m.systemOnly() {
		return key
	}
	return space.StoredKey(m.layout, m.prefix, key)
}

// systemOnly reports whether every object is the system's, whatever it is called.
// A namespaced one can still lie in a namespace of a tenant.
func (m *objectKeys) systemOnly() bool {
	return m.class != kinds.Tenant && m.layout == space.ClusterScoped
}

// Create implements storage.Interface.
func (m *mapped) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if m.border.isAPI(key) {
		return storage.NewKeyExistsError(key, 0)
	}
	if err := m.border.checkWrite(ctx, key); err != nil {
		return err
	}
	if err := m.border.checkName(key); err != nil {
		return err
	}
	if err := m.stamp(obj); err != nil {
		return err
	}
	return m.Interface.Create(ctx, m.keys.key(key), obj, out, ttl)
}

// Delete implements storage.Interface.
func (m *mapped) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions,
) error {
	if err := m.border.checkWrite(ctx, key); err != nil {
		return err
	}
	return m.Interface.Delete(ctx, m.keys.key(key), out, preconditions, validate, cached, opts)
}

// GuaranteedUpdate implements storage.Interface.
func (m *mapped) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object,
) error {
	if err := m.border.checkWrite(ctx, key); err != nil {
		return err
	}
	update := func(input runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		out, ttl, err := tryUpdate(input, meta)
		if err == nil && meta.ResourceVersion == 0 { // it does not exist yet
			err = m.border.checkName(key)
		}
		if err == nil {
			err = m.stamp(out)
		}
		return out, ttl, err
	}
	err := m.Interface.GuaranteedUpdate(ctx, m.keys.key(key), destination, ignoreNotFound,
		preconditions, update, cached)
	if err == nil && m.keys.binds(ctx) {
		confineClaims(destination)
	}
	return err
}

// Get implements storage.Interface.
func (m *mapped) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	if err := m.border.checkRead(ctx, key); err != nil {
		return err
	}
	if tenant, ok := m.showsAPI(ctx, key); ok && m.border.isAPI(key) {
		return m.getAPI(ctx, tenant, opts, out)
	}
	if err := m.Interface.Get(ctx, m.keys.key(key), opts, out); err != nil {
		return err
	}
	if m.keys.reducesNodes(ctx) {
		reduceNodes(out)
	}
	if tenant, ok := m.roles.of(ctx); ok {
		if err := m.roles.asIn(ctx, tenant, out); err != nil {
			return err
		}
	}
	return m.checkOpen(ctx, key, opts, out)
}

// GetList implements storage.Interface.
func (m *mapped) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	err := m.getList(ctx, key, opts, list)
	if err == nil {
		listsize.Note(ctx, list)
	}
	return err
}

func (m *mapped) getList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	awaitCache(ctx, m.keys, m.Interface)
	asked, whole := opts, m.keys.below(key) == ""
	apiOf, api := m.showsAPI(ctx, key)
	key, tenant, err := m.border.confine(ctx, key, &opts)
	if err != nil {
		return err
	}
	if api {
		m.withoutAPI(apiOf, &opts)
	}
	m.border.onlyOpen(ctx, &opts)
	m.border.scopeList(&opts)
	m.awaitFresh(ctx, &opts)
	if err := m.Interface.GetList(ctx, key, opts, list); err != nil {
		return err
	}
	if err := m.border.checkList(tenant, list); err != nil {
		return err
	}
	if m.keys.binds(ctx) {
		confineClaims(list)
	}
	if m.keys.reducesNodes(ctx) {
		reduceNodes(list)
	}
	if m.showsShared(ctx, tenant) {
		if err := m.addSharedRoles(ctx, opts, list); err != nil {
			return err
		}
		if _, ok := m.roles.of(ctx); ok {
			return m.roles.asIn(ctx, tenant, list)
		}
		return nil
	}
	m.countRemaining(ctx, key, tenant, whole, asked, list)
	if api {
		return m.addAPI(ctx, apiOf, asked, list)
	}
	return nil
}

// Watch implements storage.Interface.
func (m *mapped) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	awaitCache(ctx, m.keys, m.Interface)
	if addressed, ok := space.FromContext(ctx); ok && m.showsShared(ctx, addressed) {
		if m.keys.below(key) == "" {
			asked := opts
			m.withShared(addressed, &opts)
			w, err := m.Interface.Watch(ctx, key, opts)
			if _, ok := m.roles.of(ctx); ok && err == nil {
				w = m.roles.watched(ctx, addressed, asked, w)
			}
			return w, err
		}
	}
	asked, whole := opts, m.keys.below(key) == ""
	apiOf, api := m.showsAPI(ctx, key)
	key, tenant, err := m.border.confine(ctx, key, &opts)
	if err != nil {
		return nil, err
	}
	if api {
		m.withoutAPI(apiOf, &opts)
	}
	switch {
	case tenant == "" || m.keys.systemOnly():
	case tenant == space.System && !opts.Recursive:
		// The cache takes the key of one object for a prefix, too.
		m.border.only(tenant, &opts)
	case tenant != space.System && !whole:
		m.border.guarded(tenant, &opts)
	case m.keys.triggers && whole:
		fields := opts.Predicate.IndexFields
		opts.Predicate.IndexFields = append(fields[:len(fields):len(fields)], tenantField)
	}
	if !whole {
		tenant = ""
	}
	m.border.onlyOpen(ctx, &opts)
	ctx = m.border.scopeWatch(ctx, tenant, &opts)
	w, err := m.Interface.Watch(ctx, key, opts)
	switch {
	case err != nil:
		return nil, err
	case m.keys.binds(ctx):
		return viewed(ctx, w, confinedCopy), nil
	case m.keys.reducesNodes(ctx):
		return viewed(ctx, w, reducedNode), nil
	case api:
		return m.withAPI(ctx, apiOf, asked, w)
	}
	return w, nil
}

const (
	// cacheBegins is how long a new cache may take before requests are refused, as
	// upstream does at once, and cachePause is between two looks at it.
	cacheBegins = 3 * time.Second
	cachePause  = 10 * time.Millisecond
)

// awaitCache waits for the cache of custom resources, which begins with the first request
// for a version of theirs. Nobody who has just defined them expects to be told to come
// again.
func awaitCache(ctx context.Context, keys *objectKeys, cache storage.Interface) {
	if !keys.custom || cache.ReadinessCheck() == nil {
		return
	}
	// What does not get ready is for the cache to refuse.
	_ = wait.PollUntilContextTimeout(ctx, cachePause, cacheBegins, false, func(context.Context) (bool, error) {
		return cache.ReadinessCheck() == nil, nil
	})
}

// below is what a key has below the prefix of the resource, "" for the key of
// the whole collection.
func (m *objectKeys) below(key string) string {
	return strings.Trim(strings.TrimPrefix(key, m.prefix), "/")
}

// tenantOfKey is the tenant that a composite key says.
func (m *objectKeys) tenantOfKey(key string) (tenant string) {
	first, _, _ := strings.Cut(m.below(key), "/")
	switch {
	case m.systemOnly():
		return space.System
	case m.layout == space.ClusterScoped:
		tenant, _ = space.SplitClusterName(first)
	default:
		tenant, _ = space.SplitNamespace(first)
	}
	return tenant
}

// ownerOfKey is the space whose objects of this resource may be changed by
// requests to it.
func (m *objectKeys) ownerOfKey(key string) string {
	if m.class != kinds.Tenant {
		return space.System
	}
	return m.tenantOfKey(key)
}
