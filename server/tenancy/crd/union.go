package crd

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	"github.com/a4s-io/a4s/internal/space"
)

// The system sees the custom resources of all spaces at once: the garbage
// collector and the quota controller list and watch every resource that there
// is, across all spaces, for the metadata of its objects. Where tenants define a
// resource, one CRD unites theirs and the system's: it accepts every object as it is
// and has the versions of all. By which names controllers find
// resources is in composite.go.

// setUnion updates the union after a change in one space. It returns the union of the
// resource before and now, nil for none.
func (c *Catalog) setUnion(
	tenant string, r schema.GroupResource, crd *apiextensionsv1.CustomResourceDefinition, there bool,
) (old, union *apiextensionsv1.CustomResourceDefinition) {
	old = c.union[r]
	definers := c.definers[r]
	if definers == nil {
		definers = map[string]*apiextensionsv1.CustomResourceDefinition{}
		c.definers[r] = definers
	}
	before := definers[tenant]
	if there && established(crd) {
		definers[tenant] = crd
	} else {
		delete(definers, tenant)
	}
	if !sameResource(before, definers[tenant]) {
		c.unionGeneration++
	}
	if len(definers) == 0 {
		delete(c.definers, r)
	}
	// A resource that only the system defines is served by its own CRD.
	if _, bySystem := definers[space.System]; len(definers) == 0 || bySystem && len(definers) == 1 {
		delete(c.union, r)
		return old, nil
	}
	if union = unite(definers); old != nil && equality.Semantic.DeepEqual(old.Spec, union.Spec) {
		return old, old
	}
	c.union[r] = union
	return old, union
}

// sameResource reports whether two CRDs look the same to controllers.
func sameResource(a, b *apiextensionsv1.CustomResourceDefinition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Spec.Scope == b.Spec.Scope && a.Status.AcceptedNames.Kind == b.Status.AcceptedNames.Kind &&
		slices.EqualFunc(a.Spec.Versions, b.Spec.Versions,
			func(a, b apiextensionsv1.CustomResourceDefinitionVersion) bool {
				return a.Name == b.Name && a.Served == b.Served &&
					equality.Semantic.DeepEqual(a.Subresources, b.Subresources)
			})
}

// unite builds one CRD from those of some spaces.
func unite(definers map[string]*apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	served, known := map[string]bool{}, map[string]bool{}
	subresources := map[string]*apiextensionsv1.CustomResourceSubresources{}
	scope := apiextensionsv1.ClusterScoped
	var first *apiextensionsv1.CustomResourceDefinition
	for _, tenant := range slices.Sorted(maps.Keys(definers)) {
		crd := definers[tenant]
		if first == nil {
			first = crd
		}
		if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
			scope = crd.Spec.Scope
		}
		for _, v := range crd.Spec.Versions {
			known[v.Name] = true
			served[v.Name] = served[v.Name] || v.Served
			if v.Served && v.Subresources != nil {
				subresources[v.Name] = both(subresources[v.Name], v.Subresources)
			}
		}
		for _, v := range crd.Status.StoredVersions {
			known[v] = true
		}
	}
	names := first.Status.AcceptedNames
	names.ShortNames, names.Categories = nil, nil
	out := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: first.Name, UID: types.UID("union/" + first.Name)},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: first.Spec.Group, Names: names, Scope: scope,
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: names},
	}
	versions := slices.SortedFunc(maps.Keys(known), func(a, b string) int {
		return version.CompareKubeAwareVersionStrings(b, a)
	})
	for i, v := range versions {
		anything := true
		out.Spec.Versions = append(out.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: v, Served: served[v], Storage: i == 0, Subresources: subresources[v],
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", XPreserveUnknownFields: &anything,
			}},
		})
	}
	for _, condition := range []apiextensionsv1.CustomResourceDefinitionConditionType{apiextensionsv1.NamesAccepted,
		apiextensionsv1.Established} {
		out.Status.Conditions = append(out.Status.Conditions,
			apiextensionsv1.CustomResourceDefinitionCondition{Type: condition, Status: apiextensionsv1.ConditionTrue})
	}
	return out
}

// both has the subresources that one of the two has: controllers look for them
// here and ask for those of one space.
func both(a, b *apiextensionsv1.CustomResourceSubresources) *apiextensionsv1.CustomResourceSubresources {
	if a == nil {
		a = &apiextensionsv1.CustomResourceSubresources{}
	}
	out := *a
	if out.Status == nil {
		out.Status = b.Status
	}
	if out.Scale == nil {
		out.Scale = b.Scale
	}
	return &out
}
