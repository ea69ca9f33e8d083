package discovery

import (
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Order says how the versions of a group follow each other when some are added.
type Order func(group string) bool

// MergeAggregated adds groups, versions and resources to an aggregated
// document. sorts tells the groups whose versions are put in order.
func MergeAggregated(list, more []apidiscovery.APIGroupDiscovery, sorts Order) []apidiscovery.APIGroupDiscovery {
	for _, group := range more {
		at := slices.IndexFunc(list, func(g apidiscovery.APIGroupDiscovery) bool { return g.Name == group.Name })
		if at < 0 {
			list = append(list, group)
			continue
		}
		into := &list[at]
		for _, v := range group.Versions {
			in := slices.IndexFunc(into.Versions, func(has apidiscovery.APIVersionDiscovery) bool {
				return has.Version == v.Version
			})
			if in < 0 {
				into.Versions = append(into.Versions, v)
				continue
			}
			has := into.Versions[in].Resources
			for _, r := range v.Resources {
				if !slices.ContainsFunc(has,
					func(there apidiscovery.APIResourceDiscovery) bool { return there.Resource == r.Resource }) {
					has = append(has, r)
				}
			}
			into.Versions[in].Resources = has
		}
		if sorts(group.Name) {
			slices.SortStableFunc(into.Versions, func(a, b apidiscovery.APIVersionDiscovery) int {
				return preferred(a.Version, b.Version)
			})
		}
	}
	return list
}

// MergeGroups adds groups and versions to a legacy list of groups.
func MergeGroups(list, more []metav1.APIGroup, sorts Order) []metav1.APIGroup {
	for _, group := range more {
		at := slices.IndexFunc(list, func(g metav1.APIGroup) bool { return g.Name == group.Name })
		if at < 0 {
			list = append(list, group)
			continue
		}
		into := &list[at]
		for _, v := range group.Versions {
			if !slices.Contains(into.Versions, v) {
				into.Versions = append(into.Versions, v)
			}
		}
		if sorts(group.Name) {
			slices.SortStableFunc(into.Versions, func(a, b metav1.GroupVersionForDiscovery) int {
				return preferred(a.Version, b.Version)
			})
			into.PreferredVersion = into.Versions[0]
		}
	}
	return list
}

// MergeResources adds resources, with their subresources, to the legacy list
// of a group version.
func MergeResources(list, more []metav1.APIResource) []metav1.APIResource {
	had := map[string]bool{}
	for _, r := range list {
		had[parent(r.Name)] = true
	}
	for _, r := range more {
		if !had[parent(r.Name)] {
			list = append(list, r)
		}
	}
	return list
}

func parent(resource string) string {
	name, _, _ := strings.Cut(resource, "/")
	return name
}
