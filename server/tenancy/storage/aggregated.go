package storage

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	rbac "k8s.io/kubernetes/pkg/apis/rbac"
	rbacconversion "k8s.io/kubernetes/pkg/apis/rbac/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/roles"
)

// Of the default ClusterRoles, view, edit and admin give what other roles give. They
// are stored as they are in the system space, and every other space sees what they
// give in it.

// SharedClusterRoles are the ClusterRoles that all spaces have.
type SharedClusterRoles func() ([]*rbacv1.ClusterRole, error)

// rolesInSpaces shows the ClusterRoles of a storage as they are in each space.
type rolesInSpaces struct {
	storage.Interface
	keys    *objectKeys
	newList func() runtime.Object
	shared  SharedClusterRoles // nil where there are no ClusterRoles
}

// of reports whether a request sees such roles of a space other than the
// system's, and of which.
func (m *rolesInSpaces) of(ctx context.Context) (tenant string, ok bool) {
	if m.shared == nil || !m.keys.sharedRoles() {
		return "", false
	}
	tenant, ok = space.FromContext(ctx)
	return tenant, ok && !space.IsSystem(tenant) && tenant != space.All
}

// asIn makes what was read, one role or a list, that of a space.
func (m *rolesInSpaces) asIn(ctx context.Context, tenant string, obj runtime.Object) error {
	if meta.IsListType(obj) {
		var all []*rbacv1.ClusterRole
		return meta.EachListItem(obj, func(item runtime.Object) error {
			return m.aggregate(ctx, tenant, item, &all)
		})
	}
	return m.aggregate(ctx, tenant, obj, new([]*rbacv1.ClusterRole))
}

// aggregate sets the rules of a role, if it is shared and aggregated. The roles of the
// space are read into all when they are needed first.
func (m *rolesInSpaces) aggregate(
	ctx context.Context, tenant string, obj runtime.Object, all *[]*rbacv1.ClusterRole,
) error {
	role, err := versioned(obj)
	if err != nil || role.AggregationRule == nil || !roles.Shared(role.Name) {
		return err
	}
	if *all == nil {
		if *all, err = m.rolesOf(ctx, tenant); err != nil {
			return err
		}
	}
	if role.Rules, err = roles.Rules(role, *all); err != nil {
		return err
	}
	switch o := obj.(type) {
	case *rbacv1.ClusterRole:
		o.Rules = role.Rules
	case *rbac.ClusterRole:
		var out rbac.ClusterRole
		if err := rbacconversion.Convert_v1_ClusterRole_To_rbac_ClusterRole(role, &out, nil); err != nil {
			return fmt.Errorf("converting a ClusterRole: %w", err)
		}
		o.Rules = out.Rules
	}
	return nil
}

// rolesOf are the roles of a space that aggregated roles can select.
func (m *rolesInSpaces) rolesOf(ctx context.Context, tenant string) ([]*rbacv1.ClusterRole, error) {
	all, err := m.shared()
	if err != nil {
		return nil, err
	}
	list := m.newList()
	if err := m.Interface.GetList(ctx, space.TenantPrefix(m.keys.prefix, tenant), storage.ListOptions{
		Recursive: true, ResourceVersion: "0", Predicate: storage.Everything,
	}, list); err != nil {
		return nil, err
	}
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		role, err := versioned(obj)
		if err == nil && roles.Selectable(role) {
			all = append(all, role)
		}
		return err
	})
	return all, err
}

// versioned is a role as upstream's clients have it. It shares the rules.
func versioned(obj runtime.Object) (*rbacv1.ClusterRole, error) {
	out := &rbacv1.ClusterRole{}
	switch o := obj.(type) {
	case *rbacv1.ClusterRole:
		*out = *o
	case *rbac.ClusterRole:
		if err := rbacconversion.Convert_rbac_ClusterRole_To_v1_ClusterRole(o, out, nil); err != nil {
			return nil, fmt.Errorf("converting a ClusterRole: %w", err)
		}
	default:
		return nil, fmt.Errorf("%T is no ClusterRole", obj)
	}
	return out, nil
}
