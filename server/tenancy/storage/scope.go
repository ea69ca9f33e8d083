package storage

import (
	"context"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/space"
)

// A watch cache wakes, for every event, the watchers of the event's namespace,
// name and value of the trigger, and those that are confined to none of these.
// A resource whose one trigger upstream needs (pods: the node) has none left
// for the tenant, and a watch of a whole space would be woken by the events of
// all others. In the caches of these resources the tenant therefore stands
// where the name was; who watches one object by its name is woken by the events
// of its namespace. Selectors still see the name.

const (
	nameField = "metadata.name"
	// trueNameField is where the name is instead.
	trueNameField = "a4s.name"
)

// scopedAttrs puts the tenant in the place of the name.
func (m *confinement) scopedAttrs(attrs storage.AttrFunc) storage.AttrFunc {
	attrs = m.keys.withTenant(attrs)
	if !m.scopes {
		return attrs
	}
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		l, f, err := attrs(obj)
		if err == nil {
			f[trueNameField], f[nameField] = f[nameField], f[tenantField]
		}
		return l, f, err
	}
}

// scopeList has a list find the names where they are.
func (m *confinement) scopeList(opts *storage.ListOptions) {
	if m.scopes && opts.Predicate.Field != nil {
		opts.Predicate.Field = scoped{Selector: opts.Predicate.Field}
	}
}

// scopeWatch confines a watch of the whole space of tenant, "" for every other
// watch, to its events.
func (m *confinement) scopeWatch(ctx context.Context, tenant string, opts *storage.ListOptions) context.Context {
	if !m.scopes {
		return ctx
	}
	inner := opts.Predicate.Field
	if inner == nil {
		inner = fields.Everything()
	}
	opts.Predicate.Field = scoped{Selector: inner, tenant: tenant}
	// The cache would take the name for the scope.
	if info, ok := request.RequestInfoFrom(ctx); ok && info.Name != "" {
		unnamed := *info
		unnamed.Name = ""
		ctx = request.WithRequestInfo(ctx, &unnamed)
	}
	return ctx
}

// scoped is a selector for objects with the attributes of scopedAttrs, and for
// those with their own.
type scoped struct {
	fields.Selector
	tenant string // of a watch of a whole space
}

// Matches implements fields.Selector.
func (s scoped) Matches(f fields.Fields) bool {
	if f.Has(trueNameField) {
		f = trueNames{f}
	}
	return s.Selector.Matches(f)
}

// RequiresExactMatch implements fields.Selector. What the cache is told to be
// the name is the scope of the watch.
func (s scoped) RequiresExactMatch(field string) (string, bool) {
	if field == nameField {
		return s.tenant, s.tenant != ""
	}
	return s.Selector.RequiresExactMatch(field)
}

// DeepCopySelector implements fields.Selector.
func (s scoped) DeepCopySelector() fields.Selector {
	return scoped{Selector: s.Selector.DeepCopySelector(), tenant: s.tenant}
}

// trueNames are the attributes of an object with its name.
type trueNames struct{ fields.Fields }

// Get implements fields.Fields.
func (t trueNames) Get(field string) string {
	if field == nameField {
		field = trueNameField
	}
	return t.Fields.Get(field)
}

// scopes reports whether a cache needs the tenant in the place of the name.
func scopes(layout space.Layout, triggers storage.IndexerFuncs) bool {
	return layout == space.Namespaced && len(triggers) > 0
}
