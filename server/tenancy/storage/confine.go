package storage

import (
	"context"
	"errors"
	"fmt"
	"path"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// crossings counts what was about to be handed to the wrong space. It is never
// anything but 0 unless there is a mistake in a4s.
var crossings = func() *metrics.CounterVec {
	c := metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "a4s_storage_space_crossings_total",
		Help:           "Requests that were refused because they reached for an object of another space, by resource.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"resource"})
	legacyregistry.MustRegister(c)
	return c
}()

// sharedRoles are readable in every space although the resource is one of
// tenants.
func (m *objectKeys) sharedRoles() bool {
	return m.resource.Group == "rbac.authorization.k8s.io" && m.resource.Resource == "clusterroles"
}

// confine narrows a list or watch to the space that the request is addressed
// to. The tenant it returns is the one that everything found must have, "" for
// anything.
func (m *confinement) confine(
	ctx context.Context, key string, opts *storage.ListOptions,
) (stored, tenant string, err error) {
	addressed, ok := m.keys.addressed(ctx)
	if m.keys.below(key) != "" {
		// One namespace or one object. What a prefix of the system space finds
		// can be a tenant's of the same name.
		if err := m.checkRead(ctx, key); err != nil {
			return "", "", err
		}
		tenant := m.keys.tenantOfKey(key)
		if opts.Recursive && tenant == space.System && m.keys.layout == space.Namespaced {
			m.only(space.System, opts)
		}
		return m.keys.key(key), tenant, nil
	}
	if !ok || m.keys.systemOnly() {
		return key, "", nil
	}
	if m.keys.class == kinds.Shared || m.keys.class == kinds.System && m.keys.layout != space.Namespaced {
		addressed = space.System
	}
	if !space.IsSystem(addressed) {
		key = space.TenantPrefix(m.keys.prefix, addressed)
	}
	m.only(addressed, opts)
	return key, addressed, nil
}

// only adds the tenant to what the predicate asks for, so that limits, pages,
// the cache and etcd agree about what is counted.
func (m *confinement) only(tenant string, opts *storage.ListOptions) {
	m.narrow(opts, tenantField, tenant)
}

// narrow adds to what the predicate asks for that a field of withTenant has a
// value.
func (m *confinement) narrow(opts *storage.ListOptions, field, value string) {
	p := &opts.Predicate
	selector := fields.OneTermEqualSelector(field, value)
	if p.Field != nil && !p.Field.Empty() {
		selector = fields.AndSelectors(p.Field, selector)
	}
	p.Field = selector
	if p.GetAttrs != nil {
		p.GetAttrs = m.keys.withTenant(p.GetAttrs)
	}
}

// guarded is only for a prefix where no other tenant can be: what it drops is
// counted as a crossing. A watch has no later place to fail, its events are on
// their way to the client.
func (m *confinement) guarded(tenant string, opts *storage.ListOptions) {
	p := &opts.Predicate
	inner := p.Field
	if inner == nil {
		inner = fields.Everything()
	}
	p.Field = &guard{Selector: inner, tenant: tenant, resource: m.keys.resource.Resource}
	if p.GetAttrs != nil {
		p.GetAttrs = m.keys.withTenant(p.GetAttrs)
	}
}

// guard selects, of what the selector within does, the objects of one tenant.
type guard struct {
	fields.Selector
	tenant, resource string
}

// Matches implements fields.Selector.
func (g *guard) Matches(f fields.Fields) bool {
	if f.Get(tenantField) != g.tenant {
		crossings.WithLabelValues(g.resource).Inc()
		return false
	}
	return g.Selector.Matches(f)
}

// Empty implements fields.Selector: it always selects.
func (g *guard) Empty() bool { return false }

// DeepCopySelector implements fields.Selector.
func (g *guard) DeepCopySelector() fields.Selector {
	return &guard{Selector: g.Selector.DeepCopySelector(), tenant: g.tenant, resource: g.resource}
}

// checkList is the last line: nothing of another space leaves.
func (m *confinement) checkList(tenant string, list runtime.Object) error {
	if tenant == "" {
		return nil
	}
	return meta.EachListItem(list, func(obj runtime.Object) error {
		if m.keys.tenantOfObject(obj) != tenant {
			return m.keys.crossing()
		}
		return nil
	})
}

func (m *objectKeys) crossing() error {
	crossings.WithLabelValues(m.resource.Resource).Inc()
	return apierrors.NewInternalError(fmt.Errorf("an object of another space was found among the %s",
		m.resource.Resource))
}

// checkRead refuses the objects of other tenants, and those of the system
// that tenants do not share. Upstream itself reads system-only kinds on behalf
// of a request: the Node of a token, for instance.
func (m *confinement) checkRead(ctx context.Context, key string) error {
	addressed, ok := space.FromContext(ctx)
	if !ok {
		return nil
	}
	switch of := m.keys.ownerOfKey(key); {
	case of == addressed || of == space.System && m.keys.class != kinds.Tenant:
		return nil
	case of == space.System && m.keys.sharedRoles() && kinds.SharedClusterRole(m.keys.below(key)):
		return nil
	}
	return m.keys.crossing()
}

// checkWrite lets a request change the space it is addressed to, nothing else.
func (m *confinement) checkWrite(ctx context.Context, key string) error {
	addressed, ok := space.FromContext(ctx)
	owner := m.keys.ownerOfKey(key)
	switch {
	case ok && space.IsSystem(addressed) && !space.IsSystem(owner):
		return apierrors.NewForbidden(m.keys.resource, path.Base(key), fmt.Errorf("by its name it is of tenant %q, "+
			"whose space the request is not for: ask below the path /tenants/%s of the server", owner, owner))
	case ok && (owner != addressed || m.isAPI(key)):
		return apierrors.NewForbidden(m.keys.resource, path.Base(key), errors.New(m.keys.why))
	}
	return nil
}

// checkName refuses new objects whose names cannot be composed.
func (m *confinement) checkName(key string) error {
	if m.isAPI(key) {
		return storage.NewKeyExistsError(key, 0)
	}
	if m.keys.layout != space.ClusterScoped {
		return nil // upstream validates namespaces, by a4s' rule
	}
	tenant, native := space.System, m.keys.below(key)
	if !m.keys.systemOnly() {
		tenant, native = space.SplitClusterName(native)
	}
	if err := space.CheckClusterName(tenant, native); err != nil {
		return apierrors.NewInvalid(m.keys.kind(), native,
			field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), native, err.Error())})
	}
	return nil
}
