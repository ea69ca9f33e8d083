package storage

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/space"
)

// countRemaining says in a page how many objects come after it. Upstream says
// so only where nothing was selected, and confine selects. The system space as
// a whole, of which tenants' objects are not a small part, goes without, and so
// does a page after which nothing can be counted: clients have to live with it.
func (m *mapped) countRemaining(
	ctx context.Context, key, tenant string, whole bool, asked storage.ListOptions, list runtime.Object,
) {
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return
	}
	next := accessor.GetContinue()
	if tenant == "" || whole && tenant == space.System || next == "" || accessor.GetRemainingItemCount() != nil ||
		!asked.Predicate.Empty() {
		return
	}
	all, err := m.countAfter(ctx, key, next, asked, fields.Everything(), 1)
	if err != nil {
		return
	}
	// A prefix is shared only by a tenant and the system's namespace of the
	// same name, so mostly this finds nothing.
	others, err := m.countAfter(ctx, key, next, asked, fields.OneTermNotEqualSelector(tenantField, tenant), 0)
	if err != nil {
		return
	}
	remaining := all - others
	accessor.SetRemainingItemCount(&remaining)
}

// countAfter counts what a selector finds from the place of a continue token
// on; with a limit, what that left out included.
func (m *mapped) countAfter(
	ctx context.Context, key, from string, asked storage.ListOptions, selector fields.Selector, limit int64,
) (int64, error) {
	list := m.newList()
	opts := storage.ListOptions{Recursive: asked.Recursive, Predicate: storage.SelectionPredicate{
		Label: labels.Everything(), Field: selector, GetAttrs: m.keys.withTenant(asked.Predicate.GetAttrs),
		Limit: limit, Continue: from,
	}}
	m.border.scopeList(&opts)
	if err := m.Interface.GetList(ctx, key, opts, list); err != nil {
		return 0, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return 0, err
	}
	count := int64(meta.LenList(list))
	if more := accessor.GetRemainingItemCount(); more != nil {
		count += *more
	}
	return count, nil
}
