package space

import "strings"

// Masters is the group that has all rights in its space.
const Masters = "system:masters"

// Admin is the user who is the administrator of a space from its beginning. In
// the system space this is said of who has a certificate of the form that
// tenants' users have, by the group Admins: another "admin", of an identity
// provider for instance, is a user of the system like all others.
const (
	Admin  = "admin"
	Admins = "a4s:cluster-admins"
)

const (
	accountPrefix = "system:serviceaccount:"
	groupPrefix   = "system:serviceaccounts:"
)

// User composes a user name: that of a service account has its namespace in
// it, every other name is the same in both forms.
func User(tenant, native string) string {
	return mapUser(native, func(ns string) string { return Namespace(tenant, ns) })
}

// SplitUser is the inverse of User. The tenant is known for service accounts
// only, it is "" for every other name.
func SplitUser(composite string) (tenant, native string) {
	native = mapUser(composite, func(ns string) string {
		t, n := SplitNamespace(ns)
		tenant = t
		return n
	})
	return tenant, native
}

// Group composes a group name, see User. The group of all rights is composed,
// too: upstream asks nothing of its members, wherever they come from.
func Group(tenant, native string) string {
	if ns, ok := strings.CutPrefix(native, groupPrefix); ok {
		return groupPrefix + Namespace(tenant, ns)
	}
	if !IsSystem(tenant) && (native == Masters || strings.HasPrefix(native, Masters+".")) {
		return native + "." + tenant
	}
	return native
}

// SplitGroup is the inverse of Group. The tenant of a group that has no
// composite name is "".
func SplitGroup(composite string) (tenant, native string) {
	if ns, ok := strings.CutPrefix(composite, groupPrefix); ok {
		t, n := SplitNamespace(ns)
		return t, groupPrefix + n
	}
	if strings.HasPrefix(composite, Masters+".") {
		return SplitNamespace(composite)
	}
	return "", composite
}

// Identity is an authenticated user, as upstream has them (user.Info).
type Identity interface {
	GetName() string
	GetExtra() map[string][]string
}

// TenantOf is the tenant of an authenticated user, System when they have none. A user with
// two tenants gets All, which is the name of no tenant, so that they reach nothing.
//
// A service account is known by its name even where its extra attributes were lost, as
// upstream does for some forms of impersonation.
func TenantOf(u Identity) string {
	if u == nil {
		return System
	}
	tenant := ""
	for _, t := range u.GetExtra()[Extra] {
		if tenant != "" && tenant != t {
			return All
		}
		tenant = t
	}
	ofAccount, _ := SplitUser(u.GetName())
	switch {
	case tenant == "" && ofAccount == "":
		return System
	case tenant == "":
		return ofAccount
	case ofAccount != "" && ofAccount != tenant:
		return All
	}
	return tenant
}

// mapUser applies f to the namespace of a service account's user name.
func mapUser(name string, f func(string) string) string {
	rest, ok := strings.CutPrefix(name, accountPrefix)
	if !ok {
		return name
	}
	ns, account, ok := strings.Cut(rest, ":")
	if !ok || ns == "" || account == "" {
		return name
	}
	return accountPrefix + f(ns) + ":" + account
}
