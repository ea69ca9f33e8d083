package edge

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// CustomResources knows the custom resources of each space: the same group and
// resource can be defined differently in two spaces (multi-tenancy seed,
// "CRD Support"). The tenant space.All stands for the composite view that
// system users have of all spaces.
type CustomResources interface {
	// Resource finds a custom resource by its plural name. Its class is Tenant if
	// a CRD serves the tenant, and System if only the system itself has a CRD.
	Resource(tenant, group, resource string) (kinds.Kind, bool)
	// Kind finds a custom resource by its kind or its list kind.
	Kind(tenant, group, kind string) (kinds.Kind, bool)
	// GroupOf finds the group of a custom resource by its kind alone: of the
	// groups that serve the tenant, the first by name.
	GroupOf(tenant, kind string) (group string, ok bool)
	// HasGroup reports whether a tenant has custom resources of a group.
	HasGroup(tenant, group string) bool
	// Own reports whether a CRD of the tenant itself serves a resource, and not a
	// CRD of the system.
	Own(tenant, group, resource string) bool
	// CRDs are the established CRDs of the tenant itself, with native names and
	// ordered by name. For space.All they are synthetic, for the controllers that
	// work on the custom resources of all spaces. They must not be changed.
	CRDs(tenant string) []*apiextensionsv1.CustomResourceDefinition
	// Excluded reports whether those controllers see a group as upstream has it,
	// without synthetic CRDs.
	Excluded(group string) bool
	// Generation changes when any of the answers for a tenant may have changed.
	Generation(tenant string) int64
}
