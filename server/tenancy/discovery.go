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
func (e *Edge) has(tenant, group, resource string) bool {
	resource, _, _ = strings.Cut(resource, "/")
	k, ok := e.kinds.Resource(group, resource)
	if !ok && e.opts.Customs != nil {
		k, ok = e.opts.Customs.Resource(tenant, group, resource)
	}
	return ok && (k.Class != kinds.System || k.Announced)
}

// announced tells what is in discovery to be refused: it can only be asked for.
func (e *Edge) announced(group, resource string) bool {
	k, _ := e.kinds.Resource(group, resource)
	return k.Announced
}

// hasGroup tells whether tenants have anything of a group.
func (e *Edge) hasGroup(tenant, group string) bool {
	for _, k := range kinds.Rows() {
		if k.Group == group && k.Class != kinds.System {
			return true
		}
	}
	return e.opts.Customs != nil && e.opts.Customs.HasGroup(tenant, group)
}

// filterDiscovery takes out of a discovery document what tenants do not have.
func (e *Edge) filterDiscovery(tenant string, body []byte) ([]byte, error) {
	var head metav1.TypeMeta
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, fmt.Errorf("reading a discovery document: %w", err)
	}
	switch head.Kind {
	case "APIGroupDiscoveryList":
		return edit(body, func(list *apidiscovery.APIGroupDiscoveryList) { e.filterAggregated(tenant, list) })
	case "APIResourceList":
		return edit(body, func(list *metav1.APIResourceList) {
			group, _, ok := strings.Cut(list.GroupVersion, "/")
			if !ok {
				group = ""
			}
			list.APIResources = keep(list.APIResources, func(r metav1.APIResource) bool {
				parent, _, sub := strings.Cut(r.Name, "/")
				return e.has(tenant, group, r.Name) && (!sub || !e.announced(group, parent))
			})
			for i := range list.APIResources {
				if r := &list.APIResources[i]; e.announced(group, r.Name) {
					r.Verbs, r.Categories, r.ShortNames = metav1.Verbs{"create"}, nil, nil
				}
			}
		})
	case "APIGroupList":
		return edit(body, func(list *metav1.APIGroupList) {
			list.Groups = keep(list.Groups, func(g metav1.APIGroup) bool { return e.hasGroup(tenant, g.Name) })
		})
	default: // APIVersions, APIGroup, Status
		return body, nil
	}
}

// filterAggregated filters the document that has all groups in it.
func (e *Edge) filterAggregated(tenant string, list *apidiscovery.APIGroupDiscoveryList) {
	list.Items = keep(list.Items, func(g apidiscovery.APIGroupDiscovery) bool { return e.hasGroup(tenant, g.Name) })
	for i := range list.Items {
		g := &list.Items[i]
		for j := range g.Versions {
			v := &g.Versions[j]
			v.Resources = keep(v.Resources, func(r apidiscovery.APIResourceDiscovery) bool { return e.has(tenant, g.Name, r.Resource) })
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
// document, version 2 or 3, and the models of custom resources that are not
// shared with them.
func (e *Edge) filterOpenAPI(tenant string, body []byte) ([]byte, error) {
	doc := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("reading an OpenAPI document: %w", err)
	}
	keepModel := func(_ string, model json.RawMessage) (json.RawMessage, bool) { return e.keepModel(tenant, model) }
	err := editMember(doc, "paths", func(path string, item json.RawMessage) (json.RawMessage, bool) {
		r, ok := parsePath(path)
		return item, !ok || e.has(tenant, r.group, r.resource)
	})
	if err == nil {
		err = editMember(doc, "definitions", keepModel)
	}
	if components, ok := doc["components"]; ok && err == nil {
		inner := map[string]json.RawMessage{}
		if err = json.Unmarshal(components, &inner); err == nil {
			err = editMember(inner, "schemas", keepModel)
		}
		if err == nil {
			doc["components"], err = json.Marshal(inner)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("filtering an OpenAPI document: %w", err)
	}
	return json.Marshal(doc)
}

// keepModel drops the model of a custom resource that is the system's own.
func (e *Edge) keepModel(tenant string, model json.RawMessage) (json.RawMessage, bool) {
	var of struct {
		Kinds []struct{ Group, Kind string } `json:"x-kubernetes-group-version-kind"`
	}
	if e.opts.Customs == nil || json.Unmarshal(model, &of) != nil {
		return model, true
	}
	for _, gk := range of.Kinds {
		if k, ok := e.opts.Customs.Kind(tenant, gk.Group, gk.Kind); ok && k.Class == kinds.System {
			return nil, false
		}
	}
	return model, true
}

// filterOpenAPIIndex filters the list of the documents of OpenAPI version 3
// and keeps the addresses below the prefix that the request came with.
func (e *Edge) filterOpenAPIIndex(tenant string, body []byte, prefix string) ([]byte, error) {
	doc := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("reading the index of OpenAPI documents: %w", err)
	}
	err := editMember(doc, "paths", func(path string, item json.RawMessage) (json.RawMessage, bool) {
		if group, ok := strings.CutPrefix(path, "apis/"); ok {
			group, _, _ = strings.Cut(group, "/")
			if !e.hasGroup(tenant, group) {
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
	if err != nil {
		return nil, fmt.Errorf("filtering the index of OpenAPI documents: %w", err)
	}
	return json.Marshal(doc)
}

// editMember edits the entries of an object in a document, if it is there.
func editMember(doc map[string]json.RawMessage, name string, each func(string, json.RawMessage) (json.RawMessage, bool)) error {
	if doc[name] == nil {
		return nil
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(doc[name], &entries); err != nil {
		return fmt.Errorf("reading its %s: %w", name, err)
	}
	for key, entry := range entries {
		if kept, ok := each(key, entry); ok {
			entries[key] = kept
		} else {
			delete(entries, key)
		}
	}
	var err error
	doc[name], err = json.Marshal(entries)
	return err
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
