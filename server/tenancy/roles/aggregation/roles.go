package aggregation

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	informers "k8s.io/client-go/informers/rbac/v1"
	listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
	shared "github.com/a4s-io/a4s/server/tenancy/roles"
)

// Names of indexes.
const (
	aggregated = "aggregated" // the roles of tenants with an aggregation rule
	bySpace    = "space"      // those of tenants, and by the system those that all spaces share
)

// roles are the roles of tenants. Upstream's controller lists all roles at each change, to
// find those with a rule, and all of them again for each selector of a rule. With 33,000
// tenants that took a sixth of what making one more costs.
type roles struct {
	informers.ClusterRoleInformer
	listers.ClusterRoleLister
	index cache.Indexer
}

// newRoles adds the indexes. It must be called before the informer runs.
func newRoles(from informers.ClusterRoleInformer) (*roles, error) {
	informer := from.Informer()
	if err := informer.AddIndexers(cache.Indexers{
		aggregated: func(obj any) ([]string, error) {
			if role, ok := obj.(*rbacv1.ClusterRole); ok && role.AggregationRule != nil &&
				role.Labels[space.Label] != "" {
				return []string{""}, nil
			}
			return nil, nil
		},
		bySpace: func(obj any) ([]string, error) {
			role, ok := obj.(*rbacv1.ClusterRole)
			switch {
			case !ok:
			case role.Labels[space.Label] != "":
				return []string{role.Labels[space.Label]}, nil
			case shared.Shared(role.Name):
				return []string{space.System}, nil
			}
			return nil, nil
		},
	}); err != nil {
		return nil, fmt.Errorf("indexing ClusterRoles: %w", err)
	}
	return &roles{from, from.Lister(), informer.GetIndexer()}, nil
}

// Lister implements informers.ClusterRoleInformer.
func (r *roles) Lister() listers.ClusterRoleLister { return r }

// List implements listers.ClusterRoleLister. Of everything it has the roles of tenants
// with a rule only: for these upstream asks for all. The selectors of rules are never
// empty here, and require the label of the tenant, which the edge adds. They also find
// the roles that all spaces share, as they are in the space of the tenant.
func (r *roles) List(selector labels.Selector) ([]*rbacv1.ClusterRole, error) {
	if selector.Empty() {
		return r.matching(aggregated, "", selector)
	}
	tenant, ok := selector.RequiresExactMatch(space.Label)
	if !ok || space.IsSystem(tenant) {
		return nil, nil // no rule of a tenant
	}
	own, err := r.matching(bySpace, tenant, selector)
	if err != nil {
		return nil, err
	}
	defaults, err := r.matching(bySpace, space.System, withoutTenant(selector))
	if err != nil || len(defaults) == 0 {
		return own, err
	}
	return r.inSpace(tenant, own, defaults)
}

// inSpace adds to the roles of a tenant the shared ones, as they are in its space.
func (r *roles) inSpace(tenant string, own, defaults []*rbacv1.ClusterRole) ([]*rbacv1.ClusterRole, error) {
	var all []*rbacv1.ClusterRole
	for _, of := range []string{tenant, space.System} {
		found, err := r.matching(bySpace, of, labels.Everything())
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	for _, d := range defaults {
		if d.AggregationRule != nil {
			rules, err := shared.Rules(d, all)
			if err != nil {
				return nil, err
			}
			d = d.DeepCopy()
			d.Rules = rules
		}
		own = append(own, d)
	}
	return own, nil
}

// withoutTenant is a selector without what it says of the label of the tenant.
func withoutTenant(s labels.Selector) labels.Selector {
	requirements, _ := s.Requirements()
	out := labels.NewSelector()
	for _, r := range requirements {
		if r.Key() != space.Label {
			out = out.Add(r)
		}
	}
	return out
}

func (r *roles) matching(index, value string, selector labels.Selector) ([]*rbacv1.ClusterRole, error) {
	found, err := r.index.ByIndex(index, value)
	if err != nil {
		return nil, fmt.Errorf("listing ClusterRoles: %w", err)
	}
	var out []*rbacv1.ClusterRole
	for _, obj := range found {
		if role, ok := obj.(*rbacv1.ClusterRole); ok && selector.Matches(labels.Set(role.Labels)) {
			out = append(out, role)
		}
	}
	return out, nil
}
