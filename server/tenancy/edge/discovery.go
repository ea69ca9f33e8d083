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

// has tells whether a resource of upstream is in a space, subresources by
// their parent.
func (e *Edge) has(o *outlook, group, resource string) bool {
	if o.lists {
		return true
	}
	if o.index == nil {
		return e.leaves(group)
	}
	resource, sub, _ := strings.Cut(resource, "/")
	if kinds.IsNodes(group, resource) {
		return o.nodes && sub == ""
	}
	if k, ok := e.kinds.Resource(group, resource); ok {
		return k.Class != kinds.System || k.Announced
	}
	return o.kept[schema.GroupResource{Group: group, Resource: resource}]
}

// leaves tells the groups that controllers of all spaces see as upstream has
// them. In all others resources have names that are made up for them.
func (e *Edge) leaves(group string) bool {
	_, builtIn := e.documents.groups[group]
	return builtIn || e.opts.Customs.Excluded(group)
}

// announced tells what is in discovery to be refused: it can only be asked for.
func (e *Edge) announced(o *outlook, group, resource string) bool {
	k, _ := e.kinds.Resource(group, resource)
	return k.Announced && o.index != nil && !o.lists
}

// reading are the verbs of what can be read only.
func reading() []string { return []string{"get", "list", "watch"} }

// hasGroup tells whether anything of a group of upstream is in a space.
func (e *Edge) hasGroup(o *outlook, group string) bool {
	if o.lists {
		return true
	}
	if o.index == nil {
		return o.groups[group] || e.leaves(group)
	}
	return o.groups[group] || e.documents.groups[group]
}

// sorts tells the groups whose versions are put in order when some are added:
// those of definitions are. Nothing that is added becomes the preferred version
// of what is built in.
func (e *Edge) sorts(o *outlook) discovery.Order {
	return func(group string) bool {
		_, builtIn := e.documents.groups[group]
		return !builtIn && (o.index != nil || !e.opts.Customs.Excluded(group))
	}
}

// discovery makes the discovery document of a space of upstream's, or alone of
// the space's own definitions if upstream has none. It is nil if there is
// nothing to tell.
func (e *Edge) discovery(o *outlook, own discovery.Set, path string, body []byte) ([]byte, error) {
	if body == nil {
		return e.ownDiscovery(o, own, path)
	}
	var head metav1.TypeMeta
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, fmt.Errorf("reading a discovery document: %w", err)
	}
	switch head.Kind {
	case "APIGroupDiscoveryList":
		return edit(body, func(list *apidiscovery.APIGroupDiscoveryList) bool {
			e.filterAggregated(o, list)
			list.Items = discovery.MergeAggregated(list.Items, own.Aggregated(), e.sorts(o))
			return true
		})
	case "APIResourceList":
		return edit(body, func(list *metav1.APIResourceList) bool {
			gv := groupVersion(list.GroupVersion)
			e.filterResources(o, gv.Group, list)
			list.APIResources = discovery.MergeResources(list.APIResources, own.Resources(gv))
			return len(list.APIResources) > 0 || e.hasGroup(o, gv.Group) && o.hasVersion(e, gv)
		})
	case "APIGroupList":
		return edit(body, func(list *metav1.APIGroupList) bool {
			list.Groups = keep(list.Groups, func(g metav1.APIGroup) bool { return e.hasGroup(o, g.Name) })
			for i := range list.Groups {
				e.filterGroup(o, &list.Groups[i])
			}
			list.Groups = keep(list.Groups, func(g metav1.APIGroup) bool { return len(g.Versions) > 0 })
			list.Groups = discovery.MergeGroups(list.Groups, own.Groups(), e.sorts(o))
			return true
		})
	case "APIGroup":
		return edit(body, func(group *metav1.APIGroup) bool {
			name := group.Name
			e.filterGroup(o, group)
			mine := keep(own.Groups(), func(g metav1.APIGroup) bool { return g.Name == name })
			there := keep([]metav1.APIGroup{*group}, func(g metav1.APIGroup) bool { return len(g.Versions) > 0 })
			merged := discovery.MergeGroups(there, mine, e.sorts(o))
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

// rootPaths makes the list of all paths that of a space.
func (e *Edge) rootPaths(o *outlook, own discovery.Set, body []byte) ([]byte, error) {
	return edit(body, func(root *metav1.RootPaths) bool {
		root.Paths = keep(root.Paths, func(path string) bool {
			of, ok := strings.CutPrefix(strings.TrimSuffix(path, "/"), "/apis/")
			if !ok {
				return kinds.OpenPath(path)
			}
			group, version, versioned := strings.Cut(of, "/")
			return e.hasGroup(o, group) && (!versioned || o.hasVersion(e, schema.GroupVersion{Group: group, Version: version}))
		})
		for _, gv := range own.GroupVersions() {
			root.Paths = append(root.Paths, "/apis/"+gv.Group, "/apis/"+gv.String())
		}
		slices.Sort(root.Paths)
		root.Paths = slices.Compact(root.Paths)
		return true
	})
}

// ownDiscovery is the document of what only the space has.
func (e *Edge) ownDiscovery(o *outlook, own discovery.Set, path string) ([]byte, error) {
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

// filterGroup takes the versions out of a group of which nothing is left.
func (e *Edge) filterGroup(o *outlook, group *metav1.APIGroup) {
	if !e.hasGroup(o, group.Name) {
		group.Versions = nil
	}
	group.Versions = keep(group.Versions, func(v metav1.GroupVersionForDiscovery) bool {
		return o.hasVersion(e, schema.GroupVersion{Group: group.Name, Version: v.Version})
	})
	if len(group.Versions) > 0 && !slices.Contains(group.Versions, group.PreferredVersion) {
		group.PreferredVersion = group.Versions[0]
	}
}

// filterResources filters the legacy list of one group version.
func (e *Edge) filterResources(o *outlook, group string, list *metav1.APIResourceList) {
	list.APIResources = keep(list.APIResources, func(r metav1.APIResource) bool {
		parent, _, sub := strings.Cut(r.Name, "/")
		return e.has(o, group, r.Name) && (!sub || !e.announced(o, group, parent))
	})
	for i := range list.APIResources {
		if r := &list.APIResources[i]; e.announced(o, group, r.Name) {
			r.Verbs, r.Categories, r.ShortNames = append(reading(), "create"), nil, nil
		} else if o.index != nil && kinds.IsNodes(group, r.Name) {
			r.Verbs = reading()
		}
	}
	if !o.lists {
		return
	}
	for i := range list.APIResources {
		list.APIResources[i].Verbs = keep(list.APIResources[i].Verbs, listing)
	}
	list.APIResources = keep(list.APIResources, func(r metav1.APIResource) bool { return len(r.Verbs) > 0 })
}

// listing tells the verbs that all spaces can be asked with at once.
func listing(verb string) bool { return verb == "list" || verb == "watch" }

// filterAggregated filters the document that has all groups in it.
func (e *Edge) filterAggregated(o *outlook, list *apidiscovery.APIGroupDiscoveryList) {
	list.Items = keep(list.Items, func(g apidiscovery.APIGroupDiscovery) bool { return e.hasGroup(o, g.Name) })
	for i := range list.Items {
		g := &list.Items[i]
		for j := range g.Versions {
			v := &g.Versions[j]
			v.Resources = keep(v.Resources, func(r apidiscovery.APIResourceDiscovery) bool { return e.has(o, g.Name, r.Resource) })
			for k := range v.Resources {
				if r := &v.Resources[k]; e.announced(o, g.Name, r.Resource) {
					r.Verbs, r.Categories, r.ShortNames, r.Subresources = append(reading(), "create"), nil, nil, nil
				} else if o.lists {
					r.Verbs, r.Subresources = keep(r.Verbs, listing), nil
				} else if o.index != nil && kinds.IsNodes(g.Name, r.Resource) {
					r.Verbs, r.Subresources = reading(), nil
				}
			}
			v.Resources = keep(v.Resources, func(r apidiscovery.APIResourceDiscovery) bool { return !o.lists || len(r.Verbs) > 0 })
		}
		g.Versions = keep(g.Versions, func(v apidiscovery.APIVersionDiscovery) bool { return len(v.Resources) > 0 })
	}
	list.Items = keep(list.Items, func(g apidiscovery.APIGroupDiscovery) bool { return len(g.Versions) > 0 })
}

// groupVersion reads group/version; what has no slash is a version.
func groupVersion(s string) schema.GroupVersion {
	group, version, ok := strings.Cut(s, "/")
	if !ok {
		return schema.GroupVersion{Version: s}
	}
	return schema.GroupVersion{Group: group, Version: version}
}

// edit decodes a document, changes it and encodes it again, unless the change
// says that nothing is left of it.
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
