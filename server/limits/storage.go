package limits

import (
	"context"
	"fmt"
	"math"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	tenantstorage "github.com/a4s-io/a4s/server/storage"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// Storage counts what is created and deleted through inner, which knows the
// keys of tenants.
func (l *Limits) Storage(inner generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return &getter{inner: inner, limits: l, kinds: kinds.New()}
}

// Close ends the connection to the datastore. Nothing may be counted any more.
func (l *Limits) Close() { l.keys.close() }

type getter struct {
	inner  generic.RESTOptionsGetter
	limits *Limits
	kinds  *kinds.Table
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g *getter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := g.inner.GetRESTOptions(resource, example)
	if err != nil {
		return opts, err
	}
	k, builtin := g.kinds.Resource(resource.Group, resource.Resource)
	counts := !exempt(resource) && (!builtin || k.Class == kinds.Tenant)
	inner := opts.Decorator
	opts.Decorator = func(
		config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attrs storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		layout, err := tenantstorage.LayoutOf(resource, keyFunc, newFunc)
		if err != nil {
			return nil, nil, fmt.Errorf("finding the layout of %s: %w", resource, err)
		}
		s, destroy, err := inner(config, prefix, keyFunc, newFunc, newListFunc, attrs, trigger, indexers)
		if err != nil {
			return s, destroy, err
		}
		remove := g.limits.keys.add(config, prefix, stored{resource: resource, layout: layout, counts: counts})
		gone := func() { remove(); destroy() }
		if !counts {
			return s, gone, nil
		}
		return &limited{Interface: s, limits: g.limits, layout: layout, prefix: prefix, resource: resource}, gone, nil
	}
	return opts, nil
}

// exempt are the objects that do not count: events go by themselves and are
// how a refusal is told, and without leases controllers would stand still.
func exempt(r schema.GroupResource) bool {
	return r.Resource == "events" || r == schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
}

// limited is the storage of one resource.
type limited struct {
	storage.Interface
	limits   *Limits
	layout   space.Layout
	prefix   string
	resource schema.GroupResource
}

// split finds the tenant, the native namespace and the name in a composite
// key.
func (s *limited) split(key string) (tenant, namespace, name string) {
	rest := strings.Trim(strings.TrimPrefix(key, s.prefix), "/")
	first, name, _ := strings.Cut(rest, "/")
	switch s.layout {
	case space.ClusterScoped:
		tenant, _ = space.SplitClusterName(rest)
		return tenant, "", rest
	case space.Namespaces:
		tenant, _ = space.SplitNamespace(first)
		return tenant, "", first
	}
	tenant, namespace = space.SplitNamespace(first)
	return tenant, namespace, name
}

// Create implements storage.Interface.
func (s *limited) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	done, err := s.reserve(ctx, key)
	if err != nil {
		return err
	}
	created := false
	defer func() { done(created) }()
	err = s.Interface.Create(ctx, key, obj, out, ttl)
	created = err == nil
	return err
}

// GuaranteedUpdate implements storage.Interface. It creates too: server-side
// apply, and for some kinds update.
func (s *limited) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object,
) error {
	if !ignoreNotFound {
		return s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, tryUpdate, cached)
	}
	done, created := func(bool) {}, false
	defer func() { done(created) }()
	err := s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, func(input runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		// Another attempt: admission is asked again and takes its time.
		done(false)
		done = func(bool) {}
		out, ttl, err := tryUpdate(input, meta)
		if err != nil || meta.ResourceVersion != 0 {
			return out, ttl, err
		}
		reserved, err := s.reserve(ctx, key)
		if err != nil {
			return nil, nil, err
		}
		done = reserved
		return out, ttl, nil
	}, cached)
	created = err == nil
	return err
}

// Delete implements storage.Interface.
func (s *limited) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions,
) error {
	tenant, _, _ := s.split(key)
	if space.IsSystem(tenant) {
		return s.Interface.Delete(ctx, key, out, preconditions, validate, cached, opts)
	}
	var deleted []func()
	for _, what := range s.what() {
		if c := s.limits.counter(counterID{tenant, what}, false); c != nil {
			deleted = append(deleted, c.deleting())
		}
	}
	err := s.Interface.Delete(ctx, key, out, preconditions, validate, cached, opts)
	if err == nil {
		for _, tell := range deleted {
			tell()
		}
	}
	return err
}

// limit is what a field of the Tenant bounds.
type limit string

const (
	objects    limit = "objects"
	namespaces limit = "namespaces"
)

// value is the limit of a tenant, nil for none.
func (l limit) value(t *tenantapi.Tenant) *int64 {
	switch {
	case t == nil || t.Spec.Limits == nil:
		return nil
	case l == namespaces:
		return t.Spec.Limits.Namespaces
	}
	return t.Spec.Limits.Objects
}

// what are the limits that the resource counts for.
func (s *limited) what() []limit {
	if s.layout == space.Namespaces {
		return []limit{namespaces, objects}
	}
	return []limit{objects}
}

// reserve takes one of everything that the resource counts for.
func (s *limited) reserve(ctx context.Context, key string) (done func(created bool), err error) {
	tenant, namespace, name := s.split(key)
	if space.IsSystem(tenant) {
		return func(bool) {}, nil
	}
	t, err := s.limits.tenants.Get(ctx, tenant)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("looking for the tenant: %w", err))
	}
	var reserved []func(bool)
	done = func(created bool) {
		for _, d := range reserved {
			d(created)
		}
	}
	for _, what := range s.what() {
		max := what.value(t)
		if max == nil {
			s.limits.drop(counterID{tenant, what})
			continue
		}
		most := *max
		if s.belongsToSpace(namespace, name) {
			most = math.MaxInt64
		}
		one, used, err := s.limits.counter(counterID{tenant, what}, true).reserve(ctx, most, func(ctx context.Context) (int64, error) {
			return s.limits.keys.count(ctx, tenant, func(l space.Layout) bool { return what == objects || l == space.Namespaces })
		})
		if err == nil && one == nil {
			err = apierrors.NewForbidden(s.resource, name, fmt.Errorf("exceeded limit of the tenant: %s, requested: 1, used: %d, limited: %d", what, used, *max))
		}
		if err != nil {
			done(false)
			return nil, err
		}
		reserved = append(reserved, one)
	}
	return done, nil
}

// belongsToSpace tells what a4s and Kubernetes make in every space and every
// namespace, and could not do without. It counts, but is never refused.
func (s *limited) belongsToSpace(namespace, name string) bool {
	switch s.resource {
	case schema.GroupResource{Resource: "namespaces"}:
		_, native := space.SplitNamespace(name)
		return native == "default" || native == "kube-system" || native == "kube-public"
	case schema.GroupResource{Resource: "serviceaccounts"}:
		return name == "default"
	case schema.GroupResource{Resource: "configmaps"}:
		return name == "kube-root-ca.crt"
	case schema.GroupResource{Resource: "services"}:
		return namespace == "default" && name == "kubernetes"
	case schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:
		_, native := space.SplitClusterName(name)
		return native == "admin-role"
	case schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}:
		_, native := space.SplitClusterName(name)
		return native == "admin-role-binding"
	}
	return false
}

type counterID struct {
	tenant string
	what   limit
}

// counter finds a counter, or makes one.
func (l *Limits) counter(id counterID, create bool) *counter {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counters[id]
	if c == nil && create {
		c = &counter{}
		l.counters[id] = c
	}
	return c
}

// drop forgets a counter that is not kept up because there is no limit now.
func (l *Limits) drop(id counterID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.counters, id)
}
