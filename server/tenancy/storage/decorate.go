package storage

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/apistorage"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// tenantField is a field that every object has for selectors inside the
// storage layer, and for nobody else: the tenant that its composite name says.
const tenantField = "a4s.tenant"

// Defines reports whether the CRD that serves a custom resource has a
// version and kind.
type Defines func(r schema.GroupResource, kind schema.GroupVersionKind) bool

// Options is what Decorate works with.
type Options struct {
	// Pool shares the strings of what caches keep, nil for none.
	Pool *interning.Pool
	// SharedRoles are those that all spaces have. If it is nil, default roles that give
	// what others give are shown as they are in the system space.
	SharedRoles SharedClusterRoles
	// ReadsNodes reports whether there are nodes in the space of a tenant; nil for all.
	ReadsNodes func(ctx context.Context, tenant string) (bool, error)
}

// Decorate puts the mapping into the options of every resource. Every custom resource
// that cannot be decoded counts as one of another CRD: what one tenant has
// must not stop the cache of a resource that others have as well.
func Decorate(inner generic.RESTOptionsGetter, o Options) generic.RESTOptionsGetter {
	return &getter{inner: inner, kinds: kinds.New(), opts: o}
}

type getter struct {
	inner generic.RESTOptionsGetter
	kinds *kinds.Table
	// bound is the one tenant whose custom resources are reached, "" for all.
	bound   string
	opts    Options
	defines Defines
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g *getter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := g.inner.GetRESTOptions(resource, example)
	if err != nil {
		return opts, err
	}
	inner := apistorage.Maker(opts.Decorator)
	opts.Decorator = apistorage.Make(func(s apistorage.Storing) (storage.Interface, factory.DestroyFunc, error) {
		layout, err := layoutOf(resource, s.Key, s.New)
		if err != nil {
			return nil, nil, fmt.Errorf("finding the layout of %s: %w", resource, err)
		}
		keys := &objectKeys{
			layout: layout, prefix: s.Prefix, resource: resource, newFunc: s.New,
			class: kinds.Tenant, why: "it belongs to the system", triggers: len(s.Trigger) == 0,
		}
		m := &mapped{
			keys: keys, border: confinement{keys: keys, scopes: scopes(layout, s.Trigger)},
			newList: s.NewList, stamps: stamped(resource),
		}
		if k, ok := g.kinds.Resource(resource.Group, resource.Resource); ok {
			keys.class, keys.why, keys.open = k.Class, cmp.Or(k.Why, keys.why), openPart(k)
			if kinds.IsNodes(k.Group, k.Resource) {
				keys.sees = g.opts.ReadsNodes
			}
		}
		within := s
		within.Config, within.Prefix = keys.customize(s.Config, g.bound, g.defines)
		m.within = within.Prefix
		if keys.triggers {
			// A watch of one space is then woken by what happens in it, and
			// not by every event of the resource.
			within.Trigger = storage.IndexerFuncs{tenantField: keys.tenantOfObject}
		}
		within.Key = func(obj runtime.Object) (string, error) { return keys.storedKey(obj, s.Key) }
		within.Attrs = g.shared(m.border.scopedAttrs(s.Attrs))
		m.Interface, m.destroy, err = inner(within)
		m.roles = rolesInSpaces{Interface: m.Interface, keys: keys, newList: s.NewList, shared: g.opts.SharedRoles}
		return m, m.destroy, err
	}).Decorator()
	return opts, nil
}

// shared makes the objects of a cache share what they say. The cache asks for
// the attributes of an object once, before anybody else has the object: there
// is no other place that sees everything that a cache keeps, and nothing else.
func (g *getter) shared(attrs storage.AttrFunc) storage.AttrFunc {
	if g.opts.Pool == nil {
		return attrs
	}
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		g.opts.Pool.Object(obj)
		return attrs(obj)
	}
}

// layoutOf asks the resource's own key function how its keys are built.
func layoutOf(
	resource schema.GroupResource, keyFunc func(runtime.Object) (string, error), newFunc func() runtime.Object,
) (space.Layout, error) {
	if resource == (schema.GroupResource{Resource: "namespaces"}) {
		return space.Namespaces, nil
	}
	probe := newFunc()
	accessor, err := meta.Accessor(probe)
	if err != nil {
		return 0, err
	}
	accessor.SetNamespace("probe")
	accessor.SetName("name")
	key, err := keyFunc(probe)
	if err != nil {
		return 0, err
	}
	if parent, ok := cutLast(key, "/name"); ok {
		if _, namespaced := cutLast(parent, "/probe"); namespaced {
			return space.Namespaced, nil
		}
	}
	return space.ClusterScoped, nil
}

func cutLast(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || s[len(s)-len(suffix):] != suffix {
		return s, false
	}
	return s[:len(s)-len(suffix)], true
}

// withTenant adds the tenant to the attributes that selectors see.
func (m *objectKeys) withTenant(attrs storage.AttrFunc) storage.AttrFunc {
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		l, f, err := attrs(obj)
		if err != nil {
			return l, f, err
		}
		if f == nil {
			f = fields.Set{}
		}
		f[tenantField] = m.tenantOfObject(obj)
		if m.open != nil && m.open(obj) {
			f[openField] = isOpen
		}
		return l, f, nil
	}
}

// tenantOfObject is the tenant that the composite name of an object says.
func (m *objectKeys) tenantOfObject(obj runtime.Object) string {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	var tenant string
	switch {
	case m.systemOnly():
		tenant = space.System
	case m.custom && accessor.GetNamespace() == "":
		tenant, _ = space.SplitClusterName(accessor.GetName())
	case m.custom, m.layout == space.Namespaced:
		tenant, _ = space.SplitNamespace(accessor.GetNamespace())
	case m.layout == space.Namespaces:
		tenant, _ = space.SplitNamespace(accessor.GetName())
	default:
		tenant, _ = space.SplitClusterName(accessor.GetName())
	}
	return tenant
}
