package crd

import (
	"maps"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Size is the size of one or more CRDs.
type Size struct {
	// Bytes are those of the specification as it is stored.
	Bytes int64
	// Schemas are those that are in the schemas of all versions, one for every
	// field and more. A server keeps each in some forms, to validate, prune,
	// convert and document, with some kilobytes in all, however short it is
	// written down.
	Schemas int64
}

// Bounds limit the CRDs of one tenant.
type Bounds struct {
	// CRDs is the maximum number of CRDs.
	CRDs int64
	// All is the size of all together, One that of each.
	All, One Size
}

// DefaultBounds leave room for some operators with large CRDs: the largest known
// CRDs are about a tenth of the bounds of one.
func DefaultBounds() Bounds {
	return Bounds{
		CRDs: 200,
		All:  Size{Bytes: 8 << 20, Schemas: 60_000},
		One:  Size{Bytes: 1 << 20, Schemas: 20_000},
	}
}

// SizeOf is the size of a CRD.
func SizeOf(crd *apiextensionsv1.CustomResourceDefinition) Size {
	size := Size{Bytes: int64(crd.Spec.Size())}
	for i := range crd.Spec.Versions {
		if v := &crd.Spec.Versions[i]; v.Schema != nil {
			size.Schemas += schemasIn(v.Schema.OpenAPIV3Schema)
		}
	}
	return size
}

func schemasIn(s *apiextensionsv1.JSONSchemaProps) int64 {
	if s == nil {
		return 0
	}
	n := 1 + schemasIn(s.Not)
	for _, list := range [][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			n += schemasIn(&list[i])
		}
	}
	for _, named := range []map[string]apiextensionsv1.JSONSchemaProps{s.Properties,
		s.PatternProperties, s.Definitions} {
		for _, of := range named {
			n += schemasIn(&of)
		}
	}
	for _, other := range []*apiextensionsv1.JSONSchemaPropsOrBool{s.AdditionalProperties, s.AdditionalItems} {
		if other != nil {
			n += schemasIn(other.Schema)
		}
	}
	if s.Items != nil {
		n += schemasIn(s.Items.Schema)
		for i := range s.Items.JSONSchemas {
			n += schemasIn(&s.Items.JSONSchemas[i])
		}
	}
	for _, d := range s.Dependencies {
		n += schemasIn(d.Schema)
	}
	return n
}

// Sizes are the sizes of the CRDs of one tenant, by native name.
func (c *served) Sizes(tenant string) map[string]Size {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if defs := c.local[tenant]; defs != nil {
		return maps.Clone(defs.sizes)
	}
	return nil
}
