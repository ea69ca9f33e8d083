package authz

import (
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/roles"
)

// named are attributes with another name of the object.
type named struct {
	authorizer.Attributes
	name string
}

// GetName implements authorizer.Attributes.
func (n named) GetName() string { return n.name }

// everything is the namespace and the name by which upstream asks whether a
// user may do something to all objects, before they make an admission policy
// that shows them. Nothing can be called so.
const everything = "*"

// nativeName is the name of the object as rules of tenant have it. ok is false
// when the object is of another space.
func (b *bordered) nativeName(tenant string, a authorizer.Attributes) (name string, ok bool) {
	name = a.GetName()
	if name == "" {
		return "", true
	}
	if impersonates(a) {
		return nativeSubject(tenant, a)
	}
	if name == everything {
		return name, true
	}
	var of, native string
	kind, known := b.kinds.Resource(a.GetAPIGroup(), a.GetResource())
	switch {
	case a.GetAPIGroup() == "" && a.GetResource() == "namespaces":
		of, native = space.SplitNamespace(name)
	case isClusterRole(a) && roles.Shared(name), known && kind.Class != kinds.Tenant:
		return name, true
	case known && (kind.Namespaced || kinds.IsReview(kind.Group)), !known && a.GetNamespace() != "":
		return name, true
	case !known:
		// A custom resource, or none: namespaced ones are also asked for
		// across all namespaces, and then have their own name.
		if of, native = space.SplitClusterName(name); of == space.System {
			return name, true
		}
	default:
		of, native = space.SplitClusterName(name)
	}
	return native, of == tenant
}

// nativeSubject is the native name of a user or group to impersonate.
func nativeSubject(tenant string, a authorizer.Attributes) (string, bool) {
	of, native := "", a.GetName()
	switch a.GetResource() {
	case "users":
		of, native = space.SplitUser(a.GetName())
	case "groups":
		of, native = space.SplitGroup(a.GetName())
	}
	return native, of == "" || of == tenant
}

// impersonates reports whether the question is about taking on an identity. The
// verb has the form of impersonation behind it, if upstream distinguishes them.
func impersonates(a authorizer.Attributes) bool {
	return (a.GetVerb() == "impersonate" || strings.HasPrefix(a.GetVerb(), "impersonate:")) && a.GetNamespace() == ""
}

// takesMasters reports whether the question is about taking on the group of all
// rights in a form of impersonation that never gives it. Upstream knows the
// group by its native name only, and asks about many groups at once as about
// all of them; after a no it asks about each.
func takesMasters(a authorizer.Attributes) bool {
	if !impersonates(a) || a.GetVerb() == "impersonate" || a.GetResource() != "groups" {
		return false
	}
	_, native := space.SplitGroup(a.GetName())
	return native == space.Masters || a.GetName() == everything
}

// isOwnExtra reports whether the question is about taking on an identity of a
// tenant.
func isOwnExtra(a authorizer.Attributes) bool {
	return impersonates(a) && a.GetAPIGroup() == authenticationv1.GroupName &&
		a.GetResource() == "userextras" && strings.EqualFold(a.GetSubresource(), space.Extra)
}

func isClusterRole(a authorizer.Attributes) bool {
	return a.GetAPIGroup() == rbacv1.GroupName && a.GetResource() == "clusterroles"
}

// impersonateOn begins the verb of the question whether an impersonation may
// be used for a request.
const impersonateOn = "impersonate-on:"

// speaksForDrivers reports whether the question is the one that upstream asks besides, where
// the status of a claim of devices is written: whether a user may speak for a driver. The other
// one, whether they may bind the claim, is for roles: admission looks at what would be bound,
// which may be nothing.
func speaksForDrivers(a authorizer.Attributes) bool {
	return a.GetAPIGroup() == resourcev1.GroupName && a.GetResource() == "resourceclaims" &&
		a.GetSubresource() == resourcev1.SubresourceDriver
}
