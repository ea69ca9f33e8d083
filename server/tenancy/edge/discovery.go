package edge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/server/tenancy/discovery"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// has reports whether a space has a resource of upstream. Subresources are decided by
// their parent.
func (e *discoveryViews) has(view *discoveryView, group, resource string) bool {
	if view.lists {
		return true
	}
	if view.index == nil {
		return e.leaves(group)
	}
	resource, sub, _ := strings.Cut(resource, "/")
	if kinds.IsNodes(group, resource) {
		return sub == "" // there may be none
	}
	if k, ok := e.kinds.Resource(group, resource); ok {
		return k.Class != kinds.System || k.Announced
	}
	return view.kept[schema.GroupResource{Group: group, Resource: resource}]
}

// leaves reports whether controllers of all spaces see a group as upstream has it. In
// all other groups resources have synthetic names.
func (e *discoveryViews) leaves(group string) bool {
	_, builtIn := e.discoveryCache.groups[group]
	return builtIn || e.crds.Excluded(group)
}

// announced reports whether a resource is in discovery although it is refused.
func (e *discoveryViews) announced(view *discoveryView, group, resource string) bool {
	k, _ := e.kinds.Resource(group, resource)
	return k.Announced && view.index != nil && !view.lists
}

// reading are the verbs of read-only resources.
func reading() []string { return []string{"get", "list", "watch"} }

// hasGroup reports whether a space has a resource of a group of upstream.
func (e *discoveryViews) hasGroup(view *discoveryView, group string) bool {
	if view.lists {
		return true
	}
	if view.index == nil {
		return view.groups[group] || e.leaves(group)
	}
	return view.groups[group] || e.discoveryCache.groups[group]
}

// sorts reports for which groups the versions are sorted when some are added: groups
// of CRDs. An added version never becomes the preferred one of a built-in group.
func (e *discoveryViews) sorts(view *discoveryView) discovery.Order {
	return func(group string) bool {
		_, builtIn := e.discoveryCache.groups[group]
		return !builtIn && (view.index != nil || !e.crds.Excluded(group))
	}
}

// discovery builds the discovery document of a space from upstream's and the CRDs of
// the space; body is nil if upstream has no document. The result is nil if the space
// does not have the group or version.
func (e *discoveryServer) discovery(view *discoveryView, own discovery.Set, path string, body []byte) ([]byte, error) {
	if body == nil {
		return e.ownDiscovery(view, own, path)
	}
	var head metav1.TypeMeta
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, fmt.Errorf("reading a discovery document: %w", err)
	}
	switch head.Kind {
	case "APIGroupDiscoveryList":
		return edit(body, func(list *apidiscovery.APIGroupDiscoveryList) bool {
			e.filterAggregated(view, list)
			list.Items = discovery.MergeAggregated(list.Items, own.Aggregated(), e.sorts(view))
			return true
		})
	case "APIResourceList":
		return edit(body, func(list *metav1.APIResourceList) bool {
			gv := groupVersion(list.GroupVersion)
			e.filterResources(view, gv.Group, list)
			list.APIResources = discovery.MergeResources(list.APIResources, own.Resources(gv))
			return len(list.APIResources) > 0 || e.hasGroup(view, gv.Group) && view.hasVersion(&e.discoveryViews, gv)
		})
	case "APIGroupList":
		return edit(body, func(list *metav1.APIGroupList) bool {
			list.Groups = keep(list.Groups, func(g metav1.APIGroup) bool { return e.hasGroup(view, g.Name) })
			for i := range list.Groups {
				e.filterGroup(view, &list.Groups[i])
			}
			list.Groups = keep(list.Groups, func(g metav1.APIGroup) bool { return len(g.Versions) > 0 })
			list.Groups = discovery.MergeGroups(list.Groups, own.Groups(), e.sorts(view))
			return true
		})
	case "APIGroup":
		return edit(body, func(group *metav1.APIGroup) bool {
			name := group.Name
			e.filterGroup(view, group)
			mine := keep(own.Groups(), func(g metav1.APIGroup) bool { return g.Name == name })
			there := keep([]metav1.APIGroup{*group}, func(g metav1.APIGroup) bool { return len(g.Versions) > 0 })
			merged := discovery.MergeGroups(there, mine, e.sorts(view))
			if len(merged) == 0 {
				return false
			}
			merged[0].TypeMeta = group.TypeMeta
			*group = merged[0]
			return true
		})
	default: // APIVersions, Status
		return body, nil
	}
}

// rootPaths filters the list of all paths.
func (e *discoveryServer) rootPaths(view *discoveryView, own discovery.Set, body []byte) ([]byte, error) {
	return edit(body, func(root *metav1.RootPaths) bool {
		root.Paths = keep(root.Paths, func(path string) bool {
			of, ok := strings.CutPrefix(strings.TrimSuffix(path, "/"), "/apis/")
			if !ok {
				return kinds.OpenPath(path)
			}
			group, version, versioned := strings.Cut(of, "/")
			return e.hasGroup(view, group) &&
				(!versioned || view.hasVersion(&e.discoveryViews, schema.GroupVersion{Group: group, Version: version}))
		})
		for _, gv := range own.GroupVersions() {
			root.Paths = append(root.Paths, "/apis/"+gv.Group, "/apis/"+gv.String())
		}
		slices.Sort(root.Paths)
		root.Paths = slices.Compact(root.Paths)
		return true
	})
}

// ownDiscovery is the document of a group that only the space has.
func (e *discoveryServer) ownDiscovery(view *discoveryView, own discovery.Set, path string) ([]byte, error) {
	gv, ok := strings.CutPrefix(path, "/apis/")
	if !ok {
		return nil, nil
	}
	if of := groupVersion(gv); of.Group != "" {
		resources := own.Resources(of)
		if len(resources) == 0 {
			return nil, nil
		}
		return json.Marshal(metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: gv, APIResources: resources,
		})
	}
	for _, group := range own.Groups() {
		if group.Name == gv {
			group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			return json.Marshal(group)
		}
	}
	return nil, nil
}

// filterGroup removes the versions of a group that the space does not have.
func (e *discoveryServer) filterGroup(view *discoveryView, group *metav1.APIGroup) {
	if !e.hasGroup(view, group.Name) {
		group.Versions = nil
	}
	group.Versions = keep(group.Versions, func(v metav1.GroupVersionForDiscovery) bool {
		return view.hasVersion(&e.discoveryViews, schema.GroupVersion{Group: group.Name, Version: v.Version})
	})
	if len(group.Versions) > 0 && !slices.Contains(group.Versions, group.PreferredVersion) {
		group.PreferredVersion = group.Versions[0]
	}
}

// filterResources filters the legacy list of one group version.
func (e *discoveryServer) filterResources(view *discoveryView, group string, list *metav1.APIResourceList) {
	list.APIResources = keep(list.APIResources, func(r metav1.APIResource) bool {
		parent, _, sub := strings.Cut(r.Name, "/")
		return e.has(view, group, r.Name) && (!sub || !e.announced(view, group, parent))
	})
	for i := range list.APIResources {
		if r := &list.APIResources[i]; e.announced(view, group, r.Name) {
			r.Verbs, r.Categories = append(reading(), "create"), nil
		} else if view.index != nil && kinds.IsNodes(group, r.Name) {
			r.Verbs = reading()
		}
	}
	if !view.lists {
		return
	}
	for i := range list.APIResources {
		list.APIResources[i].Verbs = keep(list.APIResources[i].Verbs, listing)
	}
	list.APIResources = keep(list.APIResources, func(r metav1.APIResource) bool { return len(r.Verbs) > 0 })
}

// listing reports whether tenants/all serves a verb.
func listing(verb string) bool { return verb == "list" || verb == "watch" }

// filterAggregated filters the aggregated discovery document.
func (e *discoveryServer) filterAggregated(view *discoveryView, list *apidiscovery.APIGroupDiscoveryList) {
	list.Items = keep(list.Items, func(g apidiscovery.APIGroupDiscovery) bool { return e.hasGroup(view, g.Name) })
	for i := range list.Items {
		g := &list.Items[i]
		for j := range g.Versions {
			v := &g.Versions[j]
			v.Resources = keep(v.Resources, func(r apidiscovery.APIResourceDiscovery) bool {
				return e.has(view, g.Name, r.Resource)
			})
			for k := range v.Resources {
				if r := &v.Resources[k]; e.announced(view, g.Name, r.Resource) {
					r.Verbs, r.Categories, r.Subresources = append(reading(), "create"), nil, nil
				} else if view.lists {
					r.Verbs, r.Subresources = keep(r.Verbs, listing), nil
				} else if view.index != nil && kinds.IsNodes(g.Name, r.Resource) {
					r.Verbs, r.Subresources = reading(), nil
				}
			}
			v.Resources = keep(v.Resources, func(r apidiscovery.APIResourceDiscovery) bool {
				return !view.lists || len(r.Verbs) > 0
			})
		}
		g.Versions = keep(g.Versions, func(v apidiscovery.APIVersionDiscovery) bool { return len(v.Resources) > 0 })
	}
	list.Items = keep(list.Items, func(g apidiscovery.APIGroupDiscovery) bool { return len(g.Versions) > 0 })
}

// groupVersion reads group/version; a string without a slash is a version.
func groupVersion(s string) schema.GroupVersion {
	group, version, ok := strings.Cut(s, "/")
	if !ok {
		return schema.GroupVersion{Version: s}
	}
	return schema.GroupVersion{Group: group, Version: version}
}

// edit decodes a document, changes it and encodes it again. It is nil if change
// returns false.
func edit[T any](body []byte, change func(*T) bool) ([]byte, error) {
	doc := new(T)
	if err := json.Unmarshal(body, doc); err != nil {
		return nil, fmt.Errorf("reading a discovery document: %w", err)
	}
	if !change(doc) {
		return nil, nil
	}
	return json.Marshal(doc)
}

func keep[T any](list []T, ok func(T) bool) []T {
	kept := make([]T, 0, len(list))
	for _, x := range list {
		if ok(x) {
			kept = append(kept, x)
		}
	}
	return kept
}
