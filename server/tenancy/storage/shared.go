package storage

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// The default ClusterRoles live in the system space and are shown in every
// other one beside its own, as every cluster has them.

// showsShared reports whether a request sees the default roles. What is to be
// deleted does not, it is the space's own.
func (m *mapped) showsShared(ctx context.Context, tenant string) bool {
	if !m.keys.sharedRoles() || space.IsSystem(tenant) {
		return false
	}
	if addressed, ok := space.FromContext(ctx); !ok || addressed != tenant {
		return false
	}
	info, ok := request.RequestInfoFrom(ctx)
	return !ok || info.Verb != "deletecollection"
}

// addSharedRoles puts the default roles behind the last page of a list.
func (m *mapped) addSharedRoles(ctx context.Context, opts storage.ListOptions, list runtime.Object) error {
	own, err := meta.ListAccessor(list)
	if err != nil || own.GetContinue() != "" {
		return err
	}
	if name, ok := opts.Predicate.MatchesSingle(); ok && !opts.Recursive && !kinds.SharedClusterRole(name) {
		return nil
	}
	shared := storage.ListOptions{Predicate: opts.Predicate, Recursive: true, ResourceVersion: "0"}
	shared.Predicate.Limit, shared.Predicate.Continue = 0, ""
	shared.Predicate.Field = &sharedOnly{Selector: withoutTenant(opts.Predicate.Field)}
	found := list.DeepCopyObject()
	if err := meta.SetList(found, nil); err != nil {
		return err
	}
	if err := m.Interface.GetList(ctx, m.keys.prefix+"/", shared, found); err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	more, err := meta.ExtractList(found)
	if err != nil {
		return err
	}
	return meta.SetList(list, append(items, more...))
}

// withShared makes one watch of the roles of a tenant and the default ones.
func (m *mapped) withShared(tenant string, opts *storage.ListOptions) {
	p := &opts.Predicate
	inner := p.Field
	if inner == nil {
		inner = fields.Everything()
	}
	p.Field = &sharedOnly{Selector: inner, orTenant: tenant}
	if p.GetAttrs != nil {
		p.GetAttrs = m.keys.withTenant(p.GetAttrs)
	}
}

// sharedOnly selects, of what the selector within does, the default roles and
// those of one tenant.
type sharedOnly struct {
	fields.Selector
	orTenant string
}

// Matches implements fields.Selector.
func (s *sharedOnly) Matches(f fields.Fields) bool {
	tenant := f.Get(tenantField)
	if s.orTenant == "" || tenant != s.orTenant {
		if tenant != space.System || !kinds.SharedClusterRole(f.Get("metadata.name")) {
			return false
		}
	}
	return s.Selector.Matches(f)
}

// Empty implements fields.Selector: it always selects.
func (s *sharedOnly) Empty() bool { return false }

// DeepCopySelector implements fields.Selector.
func (s *sharedOnly) DeepCopySelector() fields.Selector {
	return &sharedOnly{Selector: s.Selector.DeepCopySelector(), orTenant: s.orTenant}
}

// withoutTenant takes back what confine has added.
func withoutTenant(s fields.Selector) fields.Selector {
	out := fields.Everything()
	if s == nil {
		return out
	}
	for _, r := range s.Requirements() {
		if r.Field == tenantField {
			continue
		}
		term := fields.OneTermEqualSelector(r.Field, r.Value)
		if r.Operator == "!=" {
			term = fields.OneTermNotEqualSelector(r.Field, r.Value)
		}
		out = fields.AndSelectors(out, term)
	}
	return out
}
