package crd

import (
	"cmp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// The methods here are what the edge asks (edge.CustomResources).

// Resource finds a custom resource as a tenant has it.
func (c *resources) Resource(tenant, group, resource string) (kinds.Kind, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.kind(tenant, schema.GroupResource{Group: group, Resource: resource})
}

func (c *served) kind(tenant string, r schema.GroupResource) (kinds.Kind, bool) {
	system := c.system[r]
	if tenant == space.All || space.IsSystem(tenant) {
		if union := c.union[r]; system == nil && union != nil && tenant == space.All {
			return kindOf(union), true
		}
		if system != nil {
			return kindOf(system.crd), true
		}
		return kinds.Kind{}, false
	}
	if _, crd := c.serving(tenant, r); crd != nil {
		return kindOf(crd), true
	}
	if system != nil {
		k := kindOf(system.crd)
		k.Class, k.Why = kinds.System, "its definition is not shared with this tenant"
		return k, true
	}
	return kinds.Kind{}, false
}

// Kind finds a custom resource by its kind or its list kind.
func (c *resources) Kind(tenant, group, kind string) (kinds.Kind, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	kind = strings.TrimSuffix(kind, "List")
	find := func(crd *apiextensionsv1.CustomResourceDefinition) (kinds.Kind, bool) {
		if crd.Spec.Group != group || crd.Spec.Names.Kind != kind {
			return kinds.Kind{}, false
		}
		k, ok := c.kind(tenant, resourceOf(crd))
		return k, ok && k.Kind == kind
	}
	if defs := c.local[tenant]; defs != nil {
		for _, crd := range defs.byResource {
			if k, ok := find(crd); ok {
				return k, ok
			}
		}
	}
	for _, s := range c.system {
		if k, ok := find(s.crd); ok {
			return k, ok
		}
	}
	if tenant == space.All {
		for _, crd := range c.union {
			if k, ok := find(crd); ok {
				return k, ok
			}
		}
	}
	return kinds.Kind{}, false
}

// GroupOf finds the group of a custom resource by its kind alone.
func (c *resources) GroupOf(tenant, kind string) (string, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var first string
	found := false
	consider := func(crd *apiextensionsv1.CustomResourceDefinition) {
		if crd.Spec.Names.Kind != kind || found && first <= crd.Spec.Group {
			return
		}
		if k, ok := c.kind(tenant, resourceOf(crd)); ok && k.Kind == kind && k.Class != kinds.System {
			first, found = crd.Spec.Group, true
		}
	}
	if defs := c.local[tenant]; defs != nil {
		for _, crd := range defs.byResource {
			consider(crd)
		}
	}
	for _, s := range c.system {
		consider(s.crd)
	}
	return first, found
}

// HasGroup reports whether a tenant has custom resources of a group.
func (c *resources) HasGroup(tenant, group string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if defs := c.local[tenant]; defs != nil {
		for r := range defs.byResource {
			if r.Group == group {
				if _, crd := c.serving(tenant, r); crd != nil {
					return true
				}
			}
		}
	}
	for r := range c.system {
		if r.Group == group {
			if k, ok := c.kind(tenant, r); ok && k.Class != kinds.System {
				return true
			}
		}
	}
	return false
}

// Own reports whether a CRD of the tenant itself serves a resource.
func (c *resources) Own(tenant, group, resource string) bool {
	s, _ := c.Serving(tenant, schema.GroupResource{Group: group, Resource: resource})
	return s == Local
}

// CRDs are those of the tenant's own that serve, by name; what
// controllers of the cluster see of all spaces for space.All.
func (c *resources) CRDs(tenant string) []*apiextensionsv1.CustomResourceDefinition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if tenant == space.All {
		return c.composite()
	}
	var out []*apiextensionsv1.CustomResourceDefinition
	if defs := c.local[tenant]; defs != nil {
		for r := range defs.byResource {
			if s, crd := c.serving(tenant, r); s == Local {
				out = append(out, crd)
			}
		}
	}
	slices.SortFunc(out, func(a, b *apiextensionsv1.CustomResourceDefinition) int {
		return cmp.Compare(a.Name, b.Name)
	})
	return out
}

// Generation changes when any of the answers for a tenant may have changed.
func (c *served) Generation(tenant string) int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if tenant == space.All {
		return c.unionGeneration
	}
	g := c.generation + c.policies[tenant]
	if defs := c.local[tenant]; defs != nil {
		g += defs.generation
	}
	return g
}

// kindOf is a CRD as a row of the table of kinds.
func kindOf(crd *apiextensionsv1.CustomResourceDefinition) kinds.Kind {
	return kinds.Kind{
		Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural, Kind: crd.Spec.Names.Kind,
		Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped, Class: kinds.Tenant,
	}
}
