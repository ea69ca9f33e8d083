package authz

import (
	"fmt"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/roles"
)

// aggregated are the default roles that give what other roles give, as they are in
// each space. They are computed when they are asked for and kept until a role of
// the space, or one that all share, changes.
type aggregated struct {
	index cache.Indexer

	mu sync.RWMutex
	// changes counts the events: what was computed before one is not kept after it.
	changes uint64
	// computed has the roles by space and name. Spaces without a role of their own that
	// can be selected have the same, by "". A tenant that is gone has no such role.
	computed map[string]map[string]*rbacv1.ClusterRole
}

// bySpace is the index of the roles that can be selected, those that all spaces
// share by the system space.
const bySpace = "a4s-selectable"

func newAggregated(informer cache.SharedIndexInformer) (*aggregated, error) {
	err := informer.AddIndexers(cache.Indexers{bySpace: func(obj any) ([]string, error) {
		role, ok := obj.(*rbacv1.ClusterRole)
		if !ok {
			return nil, fmt.Errorf("indexing a %T by space", obj)
		}
		tenant, _ := space.SplitClusterName(role.Name)
		if !space.IsSystem(tenant) && roles.Selectable(role) || roles.Shared(role.Name) {
			return []string{tenant}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("indexing ClusterRoles by space: %w", err)
	}
	a := &aggregated{index: informer.GetIndexer(), computed: map[string]map[string]*rbacv1.ClusterRole{}}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: a.changed, DeleteFunc: a.changed, UpdateFunc: func(_, now any) { a.changed(now) },
	}); err != nil {
		return nil, fmt.Errorf("watching ClusterRoles: %w", err)
	}
	return a, nil
}

// changed forgets what was computed from a role.
func (a *aggregated) changed(obj any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return // it is no object
	}
	tenant, _ := space.SplitClusterName(key)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes++
	if space.IsSystem(tenant) {
		clear(a.computed)
	}
	delete(a.computed, tenant)
}

// selectable are the roles of a space that an aggregated role can select, of the
// system those that all spaces share.
func (a *aggregated) selectable(tenant string) ([]*rbacv1.ClusterRole, error) {
	objs, err := a.index.ByIndex(bySpace, tenant)
	if err != nil {
		return nil, fmt.Errorf("listing the ClusterRoles of a space: %w", err)
	}
	out := make([]*rbacv1.ClusterRole, 0, len(objs))
	for _, o := range objs {
		out = append(out, o.(*rbacv1.ClusterRole))
	}
	return out, nil
}

// in is an aggregated role that all spaces share as it is in the space of a tenant.
func (a *aggregated) in(tenant string, role *rbacv1.ClusterRole) (*rbacv1.ClusterRole, error) {
	a.mu.RLock()
	changes, out := a.changes, a.computed[tenant][role.Name]
	a.mu.RUnlock()
	if out != nil {
		return out, nil
	}
	own, err := a.selectable(tenant)
	if err != nil {
		return nil, err
	}
	if len(own) == 0 {
		tenant = ""
		a.mu.RLock()
		changes, out = a.changes, a.computed[tenant][role.Name]
		a.mu.RUnlock()
		if out != nil {
			return out, nil
		}
	}
	shared, err := a.selectable(space.System)
	if err != nil {
		return nil, err
	}
	out = role.DeepCopy()
	if out.Rules, err = roles.Rules(role, append(shared, own...)); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.changes == changes {
		if a.computed[tenant] == nil {
			a.computed[tenant] = map[string]*rbacv1.ClusterRole{}
		}
		a.computed[tenant][role.Name] = out
	}
	return out, nil
}
