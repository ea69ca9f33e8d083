package tenancy

import (
	"encoding/json"
	"fmt"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// has tells whether tenants have a resource, subresources by their parent.
func (e *Edge) has(group, resource string) bool {
	resource, _, _ = strings.Cut(resource, "/")
	k, ok := e.kinds.Resource(group, resource)
	if !ok && e.opts.Customs != nil {
		k, ok = e.opts.Customs.Resource(group, resource)
	}
	return ok && (k.Class != kinds.System || k.Announced)
}

// announced tells what is in discovery to be refused: it can only be asked for.
func (e *Edge) announced(group, resource string) bool {
	k, _ := e.kinds.Resource(group, resource)
	return k.Announced
}

// hasGroup tells whether tenants have anything of a group.
func (e *Edge) hasGroup(group string) bool {
	for _, k := range kinds.Rows() {
		if k.Group == group && k.Class != kinds.System {
			return true
		}
	}
	return e.opts.Customs != nil && e.opts.Customs.HasGroup(group)
}

// filterDiscovery takes out of a discovery document what tenants do not have.
func (e *Edge) filterDiscovery(body []byte) ([]byte, error) {
	var head metav1.TypeMeta
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, fmt.Errorf("reading a discovery document: %w", err)
	}
	switch head.Kind {
	case "APIGroupDiscoveryList":
		return edit(body, func(list *apidiscovery.APIGroupDiscoveryList) { e.filterAggregated(list) })
	case "APIResourceList":
		return edit(body, func(list *metav1.APIResourceList) {
			group, _, ok := strings.Cut(list.GroupVersion, "/")
			if !ok {
				group = ""
			}
			list.APIResources = keep(list.APIResources, func(r metav1.APIResource) bool {
				parent, _, sub := strings.Cut(r.Name, "/")
				return e.has(group, r.Name) && (!sub || !e.announced(group, parent))
			})
			for i := range list.APIResources {
				if r := &list.APIResources[i]; e.announced(group, r.Name) {
					r.Verbs, r.Categories, r.ShortNames = metav1.Verbs{"create"}, nil, nil
				}
			}
		})
	case "APIGroupList":
		return edit(body, func(list *metav1.APIGroupList) {
			list.Groups = keep(list.Groups, func(g metav1.APIGroup) bool { return e.hasGroup(g.Name) })
		})
	default: // APIVersions, APIGroup, Status
		return body, nil
	}
}

// filterAggregated filters the document that has all groups in it.
func (e *Edge) filterAggregated(list *apidiscovery.APIGroupDiscoveryList) {
	list.Items = keep(list.Items, func(g apidiscovery.APIGroupDiscovery) bool { return e.hasGroup(g.Name) })
	for i := range list.Items {
		g := &list.Items[i]
		for j := range g.Versions {
			v := &g.Versions[j]
			v.Resources = keep(v.Resources, func(r apidiscovery.APIResourceDiscovery) bool { return e.has(g.Name, r.Resource) })
			for k := range v.Resources {
				if r := &v.Resources[k]; e.announced(g.Name, r.Resource) {
					r.Verbs, r.Categories, r.ShortNames, r.Subresources = []string{"create"}, nil, nil, nil
				}
			}
		}
		g.Versions = keep(g.Versions, func(v apidiscovery.APIVersionDiscovery) bool { return len(v.Resources) > 0 })
	}
}

// filterOpenAPI takes the paths of what tenants do not have out of an OpenAPI
// document, version 2 or 3.
func (e *Edge) filterOpenAPI(body []byte) ([]byte, error) {
	return e.filterPaths(body, func(path string, item json.RawMessage) (json.RawMessage, bool) {
		r, ok := parsePath(path)
		return item, !ok || e.has(r.group, r.resource)
	})
}

// filterOpenAPIIndex filters the list of the documents of OpenAPI version 3
// and keeps the addresses below the prefix that the request came with.
func (e *Edge) filterOpenAPIIndex(body []byte, prefix string) ([]byte, error) {
	return e.filterPaths(body, func(path string, item json.RawMessage) (json.RawMessage, bool) {
		if group, ok := strings.CutPrefix(path, "apis/"); ok {
			group, _, _ = strings.Cut(group, "/")
			if !e.hasGroup(group) {
				return nil, false
			}
		}
		var at struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		}
		if prefix == "" || json.Unmarshal(item, &at) != nil {
			return item, true
		}
		at.ServerRelativeURL = prefix + at.ServerRelativeURL
		moved, err := json.Marshal(at)
		return moved, err == nil
	})
}

// filterPaths edits the object "paths" of a document.
func (e *Edge) filterPaths(body []byte, each func(string, json.RawMessage) (json.RawMessage, bool)) ([]byte, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("reading an OpenAPI document: %w", err)
	}
	var paths map[string]json.RawMessage
	if err := json.Unmarshal(doc["paths"], &paths); err != nil {
		return nil, fmt.Errorf("reading the paths of an OpenAPI document: %w", err)
	}
	for path, item := range paths {
		if kept, ok := each(path, item); ok {
			paths[path] = kept
		} else {
			delete(paths, path)
		}
	}
	var err error
	if doc["paths"], err = json.Marshal(paths); err != nil {
		return nil, err
	}
	return json.Marshal(doc)
}

// edit decodes a document, changes it and encodes it again.
func edit[T any](body []byte, change func(*T)) ([]byte, error) {
	doc := new(T)
	if err := json.Unmarshal(body, doc); err != nil {
		return nil, fmt.Errorf("reading a discovery document: %w", err)
	}
	change(doc)
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
