package authz

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/roles"
)

// Options configures Wrap and WrapRules.
type Options struct {
	// Roles are the roles of all spaces.
	Roles Roles
	// SystemRBAC says that the inner authorizer leaves the RBAC of the system
	// space to this package, see the package's documentation. It is not set
	// in a cluster that does without RBAC for its users of the system.
	SystemRBAC bool
	// ReadsNodes reports whether there are nodes in the space of a tenant, for users
	// whom its roles let read them; nil for no tenant.
	ReadsNodes func(ctx context.Context, tenant string) (bool, error)
}

// readsNodes asks ReadsNodes.
func (o Options) readsNodes(ctx context.Context, tenant string) (bool, error) {
	if o.ReadsNodes == nil {
		return false, nil
	}
	return o.ReadsNodes(ctx, tenant)
}

// Wrap puts the borders of the spaces around inner, which decides about users
// of the system.
//
// Its decisions have no conditions (KEP 5681), whatever inner's have: a condition
// is evaluated after the border was looked at, by what the request then holds,
// which a tenant's admission may have changed.
func Wrap(inner authorizer.Authorizer, o Options) (authorizer.Authorizer, error) {
	a := &bordered{system: inner, rbac: rbac.New(o.Roles, o.Roles, o.Roles, o.Roles), kinds: kinds.New(), opts: o}
	if o.SystemRBAC {
		both, err := union.New(
			union.NamedAuthorizer{AuthorizerName: "cluster", Authorizer: inner},
			union.NamedAuthorizer{AuthorizerName: modes.ModeRBAC, Authorizer: authorizer.AuthorizerFunc(a.systemRBAC)})
		if err != nil {
			return nil, fmt.Errorf("combining the authorizers of the system: %w", err)
		}
		a.system = both
	}
	return authorizer.AuthorizerFunc(a.Authorize), nil
}

type bordered struct {
	system authorizer.UnconditionalAuthorizer
	rbac   *rbac.RBACAuthorizer
	kinds  *kinds.Table
	opts   Options
}

// systemRBAC judges by the roles of the system space, whichever space the
// request is addressed to.
func (b *bordered) systemRBAC(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return b.rbac.Authorize(space.WithTenant(ctx, space.System), a)
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (b *bordered) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser() == nil {
		return authorizer.DecisionDeny, "the request has no user", nil
	}
	tenant, refusal := border(ctx, a.GetUser())
	if refusal != "" {
		return authorizer.DecisionDeny, refusal, nil
	}
	if space.IsSystem(tenant) {
		return b.system.Authorize(ctx, a)
	}
	if nativeWords(ctx, tenant, a) {
		a = named{Attributes: a, name: composedName(b.kinds, tenant, a)}
	}
	if !a.IsResourceRequest() {
		if !kinds.OpenPath(a.GetPath()) {
			return authorizer.DecisionDeny, fmt.Sprintf("%s belongs to the cluster", a.GetPath()), nil
		}
		return b.roles(ctx, tenant, a)
	}
	if of, _ := space.SplitNamespace(a.GetNamespace()); a.GetNamespace() != "" &&
		a.GetNamespace() != everything && of != tenant {
		return authorizer.DecisionDeny, foreignNamespace(tenant), nil
	}
	if isOwnExtra(a) {
		if a.GetName() != tenant {
			return authorizer.DecisionDeny,
				fmt.Sprintf("users of tenant %q can be impersonated, nobody else", tenant), nil
		}
		return authorizer.DecisionAllow, "the impersonated user is of the same tenant", nil
	}
	if takesMasters(a) {
		return authorizer.DecisionDeny, "the group of all rights cannot be taken on in this form of impersonation", nil
	}
	decision, reason, err := b.byKind(ctx, tenant, a)
	if decision != authorizer.DecisionNoOpinion || err != nil {
		return decision, reason, err
	}
	name, ok := b.nativeName(tenant, a)
	if !ok {
		return authorizer.DecisionDeny, fmt.Sprintf("tenant %q cannot reach objects of other spaces", tenant), nil
	}
	return b.roles(ctx, tenant, named{Attributes: a, name: name})
}

// border finds out by whose roles a user is judged, or refuses them.
func border(ctx context.Context, u user.Info) (tenant, refusal string) {
	tenant = space.TenantOf(u)
	addressed, toSpace := space.FromContext(ctx)
	asker := space.TenantOf(authn.Authenticated(ctx))
	if who, ok := request.UserFrom(ctx); ok && space.IsSystem(asker) {
		asker = space.TenantOf(who)
	}
	switch {
	case !space.IsSystem(asker) && asker != tenant:
		return "", fmt.Sprintf("tenant %q can ask about its own users only", asker)
	case space.IsSystem(tenant) && authn.OfTenantElsewhere(u):
		return "", "the certificate of a tenant's user is good for the API server only"
	case space.IsSystem(tenant):
		return space.System, ""
	case toSpace && addressed != tenant:
		return "", fmt.Sprintf("tenant %q cannot reach space %q", tenant, addressed)
	case !toSpace && !space.IsSystem(asker):
		return "", fmt.Sprintf("the request of a user of tenant %q is not addressed to a space", tenant)
	}
	return tenant, ""
}

func foreignNamespace(tenant string) string {
	return fmt.Sprintf("tenant %q cannot reach namespaces of other spaces", tenant)
}

// roles judges by the RBAC of tenant, in native words.
func (b *bordered) roles(
	ctx context.Context, tenant string, a authorizer.Attributes,
) (authorizer.Decision, string, error) {
	decision, reason, err := b.rbac.Authorize(space.WithTenant(ctx, tenant), a)
	return decision, nativeText(tenant, reason), err
}

// nativeText takes the tenant out of the quoted names of roles, bindings and
// namespaces in what RBAC says.
func nativeText(tenant, text string) string {
	text = strings.ReplaceAll(text, "."+tenant+space.Suffix+`"`, `"`)
	return strings.ReplaceAll(text, "."+tenant+`"`, `"`)
}

// byKind decides what the class of a resource decides: the rest is for roles.
func (b *bordered) byKind(
	ctx context.Context, tenant string, a authorizer.Attributes,
) (authorizer.Decision, string, error) {
	resource := a.GetResource()
	if a.GetAPIGroup() == "" && resource == "pods" && a.GetSubresource() == "binding" {
		resource = "bindings" // the other way to the same
	}
	kind, ok := b.kinds.Resource(a.GetAPIGroup(), resource)
	if !ok {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if speaksForDrivers(a) {
		return authorizer.DecisionDeny, "the devices of nodes are given out by the scheduler of the cluster", nil
	}
	// Impersonation also asks whether it may be used for what is requested.
	verb, impersonated := a.GetVerb(), false
	if strings.HasPrefix(verb, impersonateOn) {
		verb, impersonated = verb[strings.LastIndexByte(verb, ':')+1:], true
	}
	reads := verb == "get" || verb == "list" || verb == "watch"
	switch {
	case kinds.IsNodes(kind.Group, kind.Resource):
		// Without the right there are none in the space, which is for its roles to let be
		// seen. Parameters of a policy cannot be of such a kind.
		may, err := b.opts.readsNodes(ctx, tenant)
		switch {
		case err != nil, !may && (!reads || a.GetSubresource() != "" || a.GetName() == everything):
			return authorizer.DecisionDeny, kind.Why, err
		case !reads || a.GetSubresource() != "":
			return authorizer.DecisionDeny,
				"nodes belong to the cluster, this tenant can get, list and watch them", nil
		}
	case kind.Announced && reads && a.GetSubresource() == "" && a.GetName() != everything:
		// There are none in the space, which is for its roles to let be seen.
		// Parameters of a policy cannot be of such a kind.
	case kind.Class == kinds.System:
		return authorizer.DecisionDeny, kind.Why, nil
	case kind.Class == kinds.Shared && (!reads || a.GetSubresource() != ""):
		return authorizer.DecisionDeny, fmt.Sprintf("%s are made by the administrators of the cluster, "+
			"tenants can get, list and watch them", resource), nil
	case kind.Class == kinds.Shared && !impersonated:
		return authorizer.DecisionAllow, fmt.Sprintf("every tenant can read %s", resource), nil
	case isClusterRole(a) && roles.Shared(a.GetName()) && !reads && verb != "bind":
		return authorizer.DecisionDeny,
			"the default roles are the same in all spaces and are changed by the administrators of the cluster", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}
