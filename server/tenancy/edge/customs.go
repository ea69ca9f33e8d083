package edge

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// Customs knows the custom resources as each space has them: the same group
// and resource can be defined differently in two of them (multi-tenancy seed,
// "CRD Support"). The tenant space.All stands for the composite view that
// system users have of all spaces.
type Customs interface {
	// Resource finds a custom resource by its plural name. Its class is
	// Tenant where a definition serves the tenant, and System where there is
	// only one of the system's own.
	Resource(tenant, group, resource string) (kinds.Kind, bool)
	// Kind finds a custom resource by its kind or that of its lists.
	Kind(tenant, group, kind string) (kinds.Kind, bool)
	// GroupOf finds the group of a custom resource by its kind alone, the first
	// one by name of those that serve the tenant.
	GroupOf(tenant, kind string) (group string, ok bool)
	// HasGroup tells whether a tenant is served custom resources of a group.
	HasGroup(tenant, group string) bool
	// Own tells whether a definition of the tenant's own serves a resource,
	// and not one of the system.
	Own(tenant, group, resource string) bool
	// Definitions are those of the tenant's own that serve, established and
	// with native names, ordered by name. For space.All they are made up, for
	// the controllers that work on the custom resources of all spaces. They
	// must not be changed.
	Definitions(tenant string) []*apiextensionsv1.CustomResourceDefinition
	// Excluded tells the groups of which those controllers see no definitions,
	// but what upstream has.
	Excluded(group string) bool
	// Generation changes when any of the answers for a tenant may have.
	Generation(tenant string) int64
}
