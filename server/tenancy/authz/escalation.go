package authz

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/rbac"
	guard "k8s.io/kubernetes/pkg/registry/rbac"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	clusterroleguard "k8s.io/kubernetes/pkg/registry/rbac/clusterrole/policybased"
	clusterrolebindingguard "k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding/policybased"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	roleguard "k8s.io/kubernetes/pkg/registry/rbac/role/policybased"
	rolebindingguard "k8s.io/kubernetes/pkg/registry/rbac/rolebinding/policybased"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/roles"
)

// GuardStorage replaces, in upstream's storage of rbac.authorization.k8s.io,
// the check that nobody grants rights that they do not have. Upstream finds a
// user's rights by all bindings that its storage lists: for a user of the
// system also by those that tenants made, and for a tenant's user not by those
// that every space has without storing them.
func GuardStorage(storage map[string]rest.Storage, a authorizer.Authorizer, in Roles) (*Binding, error) {
	r, ok1 := storage["roles"].(*roleguard.Storage)
	rb, ok2 := storage["rolebindings"].(*rolebindingguard.Storage)
	cr, ok3 := storage["clusterroles"].(*clusterroleguard.Storage)
	crb, ok4 := storage["clusterrolebindings"].(*clusterrolebindingguard.Storage)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return nil, fmt.Errorf("roles are stored as %T and %T, bindings as %T and %T, which cannot be guarded",
			storage["roles"], storage["clusterroles"], storage["rolebindings"], storage["clusterrolebindings"])
	}
	rights := validation.NewDefaultRuleResolver(in, in, in, in)
	rules := &grantable{
		rights: rights,
		granted: validation.NewDefaultRuleResolver(role.AuthorizerAdapter{
			Registry: role.NewRegistry(r.StandardStorage),
		}, nil, storedClusterRoles{
			ClusterRoleGetter: clusterrole.AuthorizerAdapter{Registry: clusterrole.NewRegistry(cr.StandardStorage)},
			inSpace:           in,
		}, nil),
	}
	storage["roles"] = roleguard.NewStorage(r.StandardStorage, a, rules)
	storage["rolebindings"] = rolebindingguard.NewStorage(rb.StandardStorage, a, rules)
	storage["clusterroles"] = clusterroleguard.NewStorage(cr.StandardStorage, a, rules)
	storage["clusterrolebindings"] = clusterrolebindingguard.NewStorage(crb.StandardStorage, a, rules)
	return &Binding{a, rules}, nil
}

// Binding knows who may bind which role.
type Binding struct {
	authorizer authorizer.Authorizer
	rules      *grantable
}

// May reports, as an error, that whoever makes a request may not have a role bound in a namespace, or in all of the
// space if that is empty. They may if they could make such a binding: if they have the right to bind the role, or
// all that it gives. All names are those inside.
func (b *Binding) May(ctx context.Context, role rbacv1.RoleRef, namespace string) error {
	asked := rbac.RoleRef{APIGroup: role.APIGroup, Kind: role.Kind, Name: role.Name}
	if guard.EscalationAllowed(ctx) || guard.BindingAuthorized(ctx, asked, namespace, b.authorizer) {
		return nil
	}
	gives, err := b.rules.GetRoleReferenceRules(ctx, role, namespace)
	if err != nil {
		return err
	}
	return validation.ConfirmNoEscalation(request.WithNamespace(ctx, namespace), b.rules, gives)
}

// grantable compares rights that a user has with rights of a role to be bound.
type grantable struct {
	// rights are those of users, as the authorizer sees them.
	rights validation.AuthorizationRuleResolver
	// granted reads roles from storage: one that was just made can be bound.
	granted validation.AuthorizationRuleResolver
}

// GetRoleReferenceRules implements validation.AuthorizationRuleResolver. What a role
// gives is what it gives in the space of the namespace.
func (g *grantable) GetRoleReferenceRules(
	ctx context.Context, ref rbacv1.RoleRef, namespace string,
) ([]rbacv1.PolicyRule, error) {
	if _, addressed := space.FromContext(ctx); !addressed && namespace != "" {
		of, _ := space.SplitNamespace(namespace)
		ctx = context.WithValue(ctx, grantedIn{}, of)
	}
	return g.granted.GetRoleReferenceRules(ctx, ref, namespace)
}

// grantedIn is the key of the space in which a role is granted by a request that is
// addressed to none. Such a request reads everything.
type grantedIn struct{}

// RulesFor implements validation.AuthorizationRuleResolver.
func (g *grantable) RulesFor(ctx context.Context, u user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	tenant, refusal := border(ctx, u)
	if refusal != "" {
		return nil, errors.New(refusal)
	}
	return g.rights.RulesFor(space.WithTenant(ctx, tenant), u, namespace)
}

// VisitRulesFor implements validation.AuthorizationRuleResolver.
func (g *grantable) VisitRulesFor(
	ctx context.Context, u user.Info, namespace string, visitor func(fmt.Stringer, *rbacv1.PolicyRule, error) bool,
) {
	tenant, refusal := border(ctx, u)
	if refusal != "" {
		visitor(nil, nil, errors.New(refusal))
		return
	}
	g.rights.VisitRulesFor(space.WithTenant(ctx, tenant), u, namespace, visitor)
}

// storedClusterRoles reads the default roles from the system space, where they
// are for all, but for those that give what other roles give: these are not the same
// in all spaces.
type storedClusterRoles struct {
	validation.ClusterRoleGetter
	inSpace validation.ClusterRoleGetter
}

// GetClusterRole implements validation.ClusterRoleGetter.
func (s storedClusterRoles) GetClusterRole(ctx context.Context, name string) (*rbacv1.ClusterRole, error) {
	if !roles.Shared(name) {
		return s.ClusterRoleGetter.GetClusterRole(ctx, name)
	}
	in := tenantIn(ctx)
	if of, ok := ctx.Value(grantedIn{}).(string); ok {
		in = of
	}
	role, err := s.ClusterRoleGetter.GetClusterRole(space.WithTenant(ctx, space.System), name)
	if err != nil || role.AggregationRule == nil || space.IsSystem(in) {
		return role, err
	}
	return s.inSpace.GetClusterRole(space.WithTenant(ctx, in), name)
}
