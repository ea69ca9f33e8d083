package authz

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// WrapRules answers what a user may do (SelfSubjectRulesReview) by the same
// rules as Wrap decides.
func WrapRules(inner authorizer.RuleResolver, o Options) authorizer.RuleResolver {
	return &borderedRules{inner: inner, rbac: rbac.New(o.Roles, o.Roles, o.Roles, o.Roles), opts: o,
		shared: sharedRules(), system: systemResources()}
}

type borderedRules struct {
	inner  authorizer.RuleResolver
	rbac   *rbac.RBACAuthorizer
	opts   Options
	shared []authorizer.ResourceRuleInfo
	// system are the resources that no rule gives a tenant, by group.
	system map[string][]string
}

// RulesFor implements authorizer.RuleResolver.
func (b *borderedRules) RulesFor(
	ctx context.Context, u user.Info, namespace string,
) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if u == nil {
		return nil, nil, false, errors.New("the request has no user")
	}
	tenant, refusal := border(ctx, u)
	if refusal != "" {
		return nil, nil, false, errors.New(refusal)
	}
	if space.IsSystem(tenant) {
		if !b.opts.SystemRBAC {
			return b.inner.RulesFor(ctx, u, namespace)
		}
		resources, paths, incomplete, err := b.inner.RulesFor(ctx, u, namespace)
		ours, oursPaths, _, oursErr := b.rbac.RulesFor(space.WithTenant(ctx, space.System), u, namespace)
		return append(slices.Clip(resources), ours...), append(slices.Clip(paths), oursPaths...), incomplete,
			errors.Join(err, oursErr)
	}
	if of, _ := space.SplitNamespace(namespace); namespace != "" && of != tenant {
		return nil, nil, false, errors.New(foreignNamespace(tenant))
	}
	resources, paths, incomplete, err := b.rbac.RulesFor(space.WithTenant(ctx, tenant), u, namespace)
	if err != nil {
		err = errors.New(nativeText(tenant, err.Error()))
	}
	nodes, unknown := b.opts.readsNodes(ctx, tenant)
	return append(b.ofTenants(resources, nodes), b.shared...), openRules(paths), incomplete, errors.Join(err, unknown)
}

// ofTenants takes out what rules cannot give a tenant. Rules for everything
// stay as they are: they are what an administrator expects to see.
func (b *borderedRules) ofTenants(rules []authorizer.ResourceRuleInfo, nodes bool) []authorizer.ResourceRuleInfo {
	var out []authorizer.ResourceRuleInfo
	for _, r := range rules {
		kept := slices.DeleteFunc(slices.Clone(r.GetResources()), func(resource string) bool {
			return b.isSystem(r.GetAPIGroups(), resource) &&
				!(nodes && resource == "nodes" && slices.Contains(r.GetAPIGroups(), ""))
		})
		if len(kept) > 0 {
			out = append(out, &authorizer.DefaultResourceRuleInfo{Verbs: r.GetVerbs(), APIGroups: r.GetAPIGroups(),
				Resources: kept, ResourceNames: r.GetResourceNames()})
		}
	}
	return out
}

// isSystem reports whether a resource is the system's in all groups of a rule
// that have it.
func (b *borderedRules) isSystem(groups []string, resource string) bool {
	resource, sub, _ := strings.Cut(resource, "/")
	if resource == "pods" && sub == "binding" {
		resource = "bindings"
	}
	if slices.Contains(groups, "*") {
		return false
	}
	for _, g := range groups {
		if !slices.Contains(b.system[g], resource) {
			return false
		}
	}
	return len(groups) > 0
}

// openRules leaves the paths that are open to tenants.
func openRules(rules []authorizer.NonResourceRuleInfo) []authorizer.NonResourceRuleInfo {
	var out []authorizer.NonResourceRuleInfo
	for _, r := range rules {
		var kept []string
		for _, url := range r.GetNonResourceURLs() {
			switch {
			case url == "*" || url == "/*":
				kept = append(kept, kinds.OpenPaths()...)
			case kinds.OpenPath(strings.TrimSuffix(url, "*")):
				kept = append(kept, url)
			}
		}
		if len(kept) > 0 {
			out = append(out, &authorizer.DefaultNonResourceRuleInfo{Verbs: r.GetVerbs(), NonResourceURLs: kept})
		}
	}
	return out
}

// sharedRules are the rules that every tenant's user has: to read what all
// spaces share.
func sharedRules() []authorizer.ResourceRuleInfo {
	var groups []string
	resources := map[string][]string{}
	for _, k := range kinds.Rows() {
		if k.Class != kinds.Shared {
			continue
		}
		if !slices.Contains(groups, k.Group) {
			groups = append(groups, k.Group)
		}
		resources[k.Group] = append(resources[k.Group], k.Resource)
	}
	var out []authorizer.ResourceRuleInfo
	for _, g := range groups {
		out = append(out, &authorizer.DefaultResourceRuleInfo{Verbs: []string{"get", "list", "watch"},
			APIGroups: []string{g}, Resources: resources[g]})
	}
	return out
}

func systemResources() map[string][]string {
	out := map[string][]string{}
	for _, k := range kinds.Rows() {
		if k.Class == kinds.System {
			out[k.Group] = append(out[k.Group], k.Resource)
		}
	}
	return out
}
