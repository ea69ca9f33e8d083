package authz

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/roles"
)

// Roles are the roles and bindings of the space in the context, of the system
// when there is none.
type Roles interface {
	validation.RoleGetter
	validation.RoleBindingLister
	validation.ClusterRoleGetter
	validation.ClusterRoleBindingLister
}

// Listers are the roles and bindings of all spaces, from shared informers.
type Listers struct {
	roles               rbaclisters.RoleLister
	roleBindings        rbaclisters.RoleBindingLister
	clusterRoles        rbaclisters.ClusterRoleLister
	clusterRoleBindings cache.Indexer
	aggregated          *aggregated
	// everywhere are the bindings that every space has without storing them.
	everywhere []*rbacv1.ClusterRoleBinding
}

var _ Roles = &Listers{}

// byTenant is the index of cluster-scoped objects by their tenant.
const byTenant = "a4s-tenant"

// NewListers gets the listers from informers that have not been started.
func NewListers(f informers.SharedInformerFactory) (*Listers, error) {
	v1 := f.Rbac().V1()
	bindings := v1.ClusterRoleBindings().Informer()
	if err := bindings.AddIndexers(cache.Indexers{byTenant: tenantOfObject}); err != nil {
		return nil, fmt.Errorf("indexing ClusterRoleBindings by tenant: %w", err)
	}
	aggregated, err := newAggregated(v1.ClusterRoles().Informer())
	if err != nil {
		return nil, err
	}
	return &Listers{
		aggregated:          aggregated,
		roles:               v1.Roles().Lister(),
		roleBindings:        v1.RoleBindings().Lister(),
		clusterRoles:        v1.ClusterRoles().Lister(),
		clusterRoleBindings: bindings.GetIndexer(),
		everywhere:          everywhere(),
	}, nil
}

// everywhere are the default bindings of upstream for groups that users of tenants
// are in.
func everywhere() []*rbacv1.ClusterRoleBinding {
	theirs := []string{user.AllAuthenticated, user.AllUnauthenticated, serviceaccount.AllServiceAccountsGroup}
	var out []*rbacv1.ClusterRoleBinding
	for _, b := range bootstrappolicy.ClusterRoleBindings() {
		var groups []string
		for _, s := range b.Subjects {
			if s.Kind == rbacv1.GroupKind && slices.Contains(theirs, s.Name) {
				groups = append(groups, s.Name)
			}
		}
		if len(groups) > 0 {
			out = append(out, bindingOfGroups(b.Name, groups...))
		}
	}
	return out
}

// Has reports whether ClusterRoles and ClusterRoleBindings of these names are
// among the listers.
func (l *Listers) Has(roles, bindings sets.Set[string]) bool {
	for name := range roles {
		if _, err := l.clusterRoles.Get(name); err != nil {
			return false
		}
	}
	for name := range bindings {
		if _, ok, err := l.clusterRoleBindings.GetByKey(name); err != nil || !ok {
			return false
		}
	}
	return true
}

// bindingOfGroups binds groups to the ClusterRole of the same name, as upstream
// names its default bindings.
func bindingOfGroups(name string, groups ...string) *rbacv1.ClusterRoleBinding {
	b := &rbacv1.ClusterRoleBinding{RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName,
		Kind: "ClusterRole", Name: name}}
	b.Name = name
	for _, g := range groups {
		b.Subjects = append(b.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: g})
	}
	return b
}

func tenantOfObject(obj any) ([]string, error) {
	b, ok := obj.(*rbacv1.ClusterRoleBinding)
	if !ok {
		return nil, fmt.Errorf("indexing a %T by tenant", obj)
	}
	tenant, _ := space.SplitClusterName(b.Name)
	return []string{tenant}, nil
}

func tenantIn(ctx context.Context) string {
	if t, ok := space.FromContext(ctx); ok {
		return t
	}
	return space.System
}

// GetRole implements validation.RoleGetter.
func (l *Listers) GetRole(ctx context.Context, namespace, name string) (*rbacv1.Role, error) {
	if t, _ := space.SplitNamespace(namespace); t != tenantIn(ctx) {
		return nil, apierrors.NewNotFound(rbacv1.Resource("roles"), name)
	}
	return l.roles.Roles(namespace).Get(name)
}

// ListRoleBindings implements validation.RoleBindingLister.
func (l *Listers) ListRoleBindings(ctx context.Context, namespace string) ([]*rbacv1.RoleBinding, error) {
	if t, _ := space.SplitNamespace(namespace); t != tenantIn(ctx) {
		return nil, nil
	}
	return l.roleBindings.RoleBindings(namespace).List(labels.Everything())
}

// GetClusterRole implements validation.ClusterRoleGetter.
func (l *Listers) GetClusterRole(ctx context.Context, name string) (*rbacv1.ClusterRole, error) {
	tenant := tenantIn(ctx)
	of, _ := space.SplitClusterName(name)
	if of != tenant && !roles.Shared(name) {
		return nil, apierrors.NewNotFound(rbacv1.Resource("clusterroles"), name)
	}
	role, err := l.clusterRoles.Get(name)
	if err != nil || of == tenant || role.AggregationRule == nil {
		return role, err
	}
	return l.aggregated.in(tenant, role)
}

// SharedClusterRoles are the ClusterRoles that all spaces have.
func (l *Listers) SharedClusterRoles() ([]*rbacv1.ClusterRole, error) {
	return l.aggregated.selectable(space.System)
}

// ListClusterRoleBindings implements validation.ClusterRoleBindingLister.
func (l *Listers) ListClusterRoleBindings(ctx context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	tenant := tenantIn(ctx)
	objs, err := l.clusterRoleBindings.ByIndex(byTenant, tenant)
	if err != nil {
		return nil, fmt.Errorf("listing the ClusterRoleBindings of a tenant: %w", err)
	}
	out := make([]*rbacv1.ClusterRoleBinding, 0, len(objs)+len(l.everywhere)+1)
	if !space.IsSystem(tenant) {
		out = append(out, bindingOfGroups("cluster-admin", space.Masters, space.Group(tenant, space.Masters)))
		out = append(out, l.everywhere...)
	}
	for _, o := range objs {
		out = append(out, o.(*rbacv1.ClusterRoleBinding))
	}
	return out, nil
}
