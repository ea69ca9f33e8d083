package discovery

import (
	"cmp"
	"slices"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/discovery"
)

// OnlyGet is the annotation of a CRD whose only verb is get.
const OnlyGet = "a4s.io/only-get"

// Set is a list of established CRDs with native names.
type Set []*apiextensionsv1.CustomResourceDefinition

// scale is what every scale subresource speaks.
var scale = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}

// Groups are the groups with a served version, by name.
func (s Set) Groups() []metav1.APIGroup {
	var out []metav1.APIGroup
	for _, name := range s.groupNames() {
		group := metav1.APIGroup{Name: name}
		for _, v := range s.versions(name) {
			group.Versions = append(group.Versions, forDiscovery(name, v))
		}
		group.PreferredVersion = group.Versions[0]
		out = append(out, group)
	}
	return out
}

// Resources are the entries of the legacy list of a group version, nil if it
// is not served.
func (s Set) Resources(gv schema.GroupVersion) []metav1.APIResource {
	var out []metav1.APIResource
	for _, crd := range s.serving(gv) {
		names, namespaced := namesOf(crd), crd.Spec.Scope == apiextensionsv1.NamespaceScoped
		out = append(out, metav1.APIResource{
			Name: names.Plural, SingularName: names.Singular, Namespaced: namespaced, Kind: names.Kind,
			Verbs: verbs(crd), ShortNames: names.ShortNames, Categories: names.Categories,
			StorageVersionHash: storageHash(crd),
		})
		status, hasScale := subresources(crd, gv.Version)
		if status {
			out = append(out, metav1.APIResource{Name: names.Plural + "/status", Namespaced: namespaced,
				Kind: names.Kind, Verbs: subresourceVerbs()})
		}
		if hasScale {
			out = append(out, metav1.APIResource{
				Name: names.Plural + "/scale", Namespaced: namespaced,
				Group: scale.Group, Version: scale.Version, Kind: scale.Kind, Verbs: subresourceVerbs(),
			})
		}
	}
	return out
}

// Aggregated are the groups with their versions and resources, by name.
func (s Set) Aggregated() []apidiscovery.APIGroupDiscovery {
	var out []apidiscovery.APIGroupDiscovery
	for _, name := range s.groupNames() {
		group := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, v := range s.versions(name) {
			group.Versions = append(group.Versions, apidiscovery.APIVersionDiscovery{
				Version: v, Freshness: apidiscovery.DiscoveryFreshnessCurrent,
				Resources: s.aggregated(schema.GroupVersion{Group: name, Version: v}),
			})
		}
		out = append(out, group)
	}
	return out
}

func (s Set) aggregated(gv schema.GroupVersion) []apidiscovery.APIResourceDiscovery {
	var out []apidiscovery.APIResourceDiscovery
	for _, crd := range s.serving(gv) {
		names, scope := namesOf(crd), apidiscovery.ScopeCluster
		if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
			scope = apidiscovery.ScopeNamespace
		}
		kind := metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: names.Kind}
		r := apidiscovery.APIResourceDiscovery{
			Resource: names.Plural, SingularResource: names.Singular, Scope: scope, ResponseKind: &kind,
			Verbs: verbs(crd), ShortNames: names.ShortNames, Categories: names.Categories,
		}
		status, hasScale := subresources(crd, gv.Version)
		if status {
			r.Subresources = append(r.Subresources, apidiscovery.APISubresourceDiscovery{Subresource: "status",
				ResponseKind: &kind, Verbs: subresourceVerbs()})
		}
		if hasScale {
			of := metav1.GroupVersionKind(scale)
			r.Subresources = append(r.Subresources, apidiscovery.APISubresourceDiscovery{Subresource: "scale",
				ResponseKind: &of, Verbs: subresourceVerbs()})
		}
		out = append(out, r)
	}
	return out
}

// groupNames are the groups with a served version.
func (s Set) groupNames() []string {
	var out []string
	for _, crd := range s {
		if !slices.Contains(out, crd.Spec.Group) && slices.ContainsFunc(crd.Spec.Versions, served) {
			out = append(out, crd.Spec.Group)
		}
	}
	slices.Sort(out)
	return out
}

// versions are the served versions of a group, the preferred one first.
func (s Set) versions(group string) []string {
	var out []string
	for _, crd := range s {
		if crd.Spec.Group != group {
			continue
		}
		for _, v := range crd.Spec.Versions {
			if v.Served && !slices.Contains(out, v.Name) {
				out = append(out, v.Name)
			}
		}
	}
	slices.SortFunc(out, preferred)
	return out
}

// serving are the CRDs of a group version, by resource.
func (s Set) serving(gv schema.GroupVersion) Set {
	var out Set
	for _, crd := range s {
		if crd.Spec.Group == gv.Group && apihelpers.HasServedCRDVersion(crd, gv.Version) {
			out = append(out, crd)
		}
	}
	slices.SortFunc(out, func(a, b *apiextensionsv1.CustomResourceDefinition) int {
		return cmp.Compare(namesOf(a).Plural, namesOf(b).Plural)
	})
	return out
}

func served(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served }

// preferred orders versions as Kubernetes prefers them.
func preferred(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) }

func forDiscovery(group, version string) metav1.GroupVersionForDiscovery {
	return metav1.GroupVersionForDiscovery{GroupVersion: group + "/" + version, Version: version}
}

// namesOf are the accepted names: a name of the specification may belong to another
// CRD.
func namesOf(crd *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinitionNames {
	return crd.Status.AcceptedNames
}

// verbs are the verbs of a resource. No object can be created while its CRD is being
// deleted.
func verbs(crd *apiextensionsv1.CustomResourceDefinition) metav1.Verbs {
	if _, only := crd.Annotations[OnlyGet]; only {
		return metav1.Verbs{"get"}
	}
	if apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Terminating) {
		return metav1.Verbs{"delete", "deletecollection", "get", "list", "watch"}
	}
	return metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
}

func subresourceVerbs() metav1.Verbs { return metav1.Verbs{"get", "patch", "update"} }

func subresources(crd *apiextensionsv1.CustomResourceDefinition, version string) (status, scale bool) {
	of, err := apihelpers.GetSubresourcesForVersion(crd, version)
	if err != nil || of == nil {
		return false, false
	}
	return of.Status != nil, of.Scale != nil
}

// storageHash tells clients when objects are stored in another version than
// before. Upstream has it only where the version that is stored is served.
func storageHash(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, v := range crd.Spec.Versions {
		if v.Storage && v.Served {
			return discovery.StorageVersionHash(crd.Spec.Group, v.Name, crd.Spec.Names.Kind)
		}
	}
	return ""
}
