package crd

import (
	"maps"
	"math"

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
	// Patterns is the length of the programs that its regular expressions compile to, each of which counts once.
	Patterns int64
}

// Bounds limit the CRDs of one tenant.
type Bounds struct {
	// CRDs is the maximum number of CRDs.
	CRDs int64
	// All is the size of all together, One that of each.
	All, One Size
}

const (
	// bytesOfSchema is for how many bytes that a tenant's CRDs can have there can be one
	// schema: large CRDs have fewer.
	bytesOfSchema = 128
	// fewest CRDs are bounded by the accounting alone, which knows the use.
	fewest = 200
)

// BoundsFor are those of a tenant that can have so many bytes of CRDs; the accounting
// keeps it to them. One CRD is not to be larger than the datastore takes, which is twice
// what the largest known ones have.
func BoundsFor(crds, bytes int64) Bounds {
	return Bounds{
		CRDs: max(crds, fewest),
		All:  Size{Bytes: math.MaxInt64, Schemas: bytes / bytesOfSchema, Patterns: stepsOfAll},
		One:  Size{Bytes: 2 << 20, Schemas: 40_000, Patterns: stepsOfOne},
	}
}

// SizeOf is the size of a CRD.
func SizeOf(crd *apiextensionsv1.CustomResourceDefinition) Size {
	size := Size{Bytes: int64(crd.Spec.Size())}
	patterns := map[string]bool{}
	for i := range crd.Spec.Versions {
		if v := &crd.Spec.Versions[i]; v.Schema != nil {
			size.Schemas += schemasIn(v.Schema.OpenAPIV3Schema, patterns)
		}
	}
	for pattern := range patterns {
		size.Patterns += steps(pattern)
	}
	return size
}

// schemasIn counts a schema and those in it, and collects their patterns.
func schemasIn(s *apiextensionsv1.JSONSchemaProps, patterns map[string]bool) int64 {
	if s == nil {
		return 0
	}
	if s.Pattern != "" {
		patterns[s.Pattern] = true
	}
	n := 1 + schemasIn(s.Not, patterns)
	for _, list := range [][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			n += schemasIn(&list[i], patterns)
		}
	}
	for _, named := range []map[string]apiextensionsv1.JSONSchemaProps{s.Properties,
		s.PatternProperties, s.Definitions} {
		for _, of := range named {
			n += schemasIn(&of, patterns)
		}
	}
	for _, other := range []*apiextensionsv1.JSONSchemaPropsOrBool{s.AdditionalProperties, s.AdditionalItems} {
		if other != nil {
			n += schemasIn(other.Schema, patterns)
		}
	}
	if s.Items != nil {
		n += schemasIn(s.Items.Schema, patterns)
		for i := range s.Items.JSONSchemas {
			n += schemasIn(&s.Items.JSONSchemas[i], patterns)
		}
	}
	for _, d := range s.Dependencies {
		n += schemasIn(d.Schema, patterns)
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
