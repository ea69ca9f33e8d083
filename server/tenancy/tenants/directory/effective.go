package directory

import (
	"context"
	"slices"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

// with finds a tenant, nil when there is none, and its template, nil for none.
func (d *Directory) with(ctx context.Context, name string) (*tenantapi.Tenant, *tenantapi.TenantTemplate, error) {
	t, err := Bounded{d}.Get(ctx, name)
	if err != nil || t == nil || t.Spec.Template == "" {
		return t, nil, err
	}
	return t, d.Template(t.Spec.Template), nil
}

// Allowance is what holds of an allowance for a tenant, as it stands in an annotation; "" if nobody says it.
func (d *Directory) Allowance(ctx context.Context, name, key string) (string, error) {
	t, from, err := d.with(ctx, name)
	if err != nil || t == nil {
		return "", err
	}
	return allowances.Effective(t, from, key), nil
}

// Scheduling says which nodes run the pods of a tenant, nil for all, and which template says it, "" if the
// Tenant does. What it returns must not be changed.
func (d *Directory) Scheduling(
	ctx context.Context, name string,
) (s *tenantapi.TenantScheduling, template string, err error) {
	t, from, err := d.with(ctx, name)
	if err != nil || t == nil {
		return nil, "", err
	}
	s, template = t.SchedulingBy(from)
	return s, template, nil
}

// Images are the registries that pods of a tenant have images of, none for all. What it
// returns must not be changed.
func (d *Directory) Images(ctx context.Context, name string) ([]string, error) {
	t, from, err := d.with(ctx, name)
	if err != nil || t == nil {
		return nil, err
	}
	return t.ImagesBy(from), nil
}

// Hosts are those that Ingresses of a tenant may have, none if no list says it. What it returns must
// not be changed.
func (d *Directory) Hosts(ctx context.Context, name string) ([]string, error) {
	t, from, err := d.with(ctx, name)
	if err != nil || t == nil {
		return nil, err
	}
	return t.HostsBy(from), nil
}

// Effective is what holds for a tenant of what it and its template say.
func (d *Directory) Effective(t *tenantapi.Tenant) *tenantapi.EffectiveSpec {
	var from *tenantapi.TenantTemplate
	if t.Spec.Template != "" {
		from = d.Template(t.Spec.Template)
	}
	scheduling, _ := t.SchedulingBy(from)
	out := &tenantapi.EffectiveSpec{Images: slices.Clone(t.ImagesBy(from)), Scheduling: scheduling.DeepCopy(),
		Hosts: slices.Clone(t.HostsBy(from))}
	out.PodSecurity, out.Allow = allowances.Shown(t, from)
	return out
}
