package spaces_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// parityDocuments are the differences of discovery and OpenAPI.
func parityDocuments() []*parityIntention {
	return []*parityIntention{{
		name: "reading of documents",
		what: "405 for other methods than GET and HEAD on the paths of discovery and OpenAPI, " +
			"and HEAD wherever there is GET",
		why: "some of them answer every method with the document, and that would be the cluster's",
		examples: func(*parityRun) []*parityRequest {
			return []*parityRequest{{method: "POST", path: "/apis/" + parityGroup + "/v1"},
				{method: "OPTIONS", path: "/openapi/v2"}}
		},
		explain: func(p *parityPair) bool {
			if p.request.resource == nil && p.request.method == http.MethodHead && p.code(0) == "405" &&
				p.code(1) == "200" {
				return p.accept()
			}
			return p.request.method != http.MethodGet && p.request.method != http.MethodHead &&
				p.refused("405", "the server does not allow this method on the requested resource") && p.accept()
		},
	}, {
		name: "forms of documents",
		what: "discovery and OpenAPI v3 are answered in JSON whatever else was asked for, " +
			"where a cluster has YAML and protobuf or says 406; groups of a tenant's own definitions are the last; " +
			"`/api/` and `/apis/` are answered as without the slash",
		why: "it is made of what the API server has and of what the tenant has defined",
		examples: func(*parityRun) []*parityRequest {
			out := reads("/apis", "/api/v1", "/apis/")
			out[2].header = [][2]string{{"Accept",
				"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"}}
			out[1].header = [][2]string{{"Accept", parityProtobuf}}
			return out
		},
		explain: func(p *parityPair) bool {
			if p.request.resource != nil || p.code(0) != p.code(1) && (p.code(0) != "406" || p.code(1) != "200") {
				return false
			}
			if strings.HasSuffix(p.request.path, "/") && len(p.request.path) > 1 {
				return p.accept()
			}
			for i := range p.trees {
				body, _ := p.trees[i]["body"].(map[string]any)
				for _, key := range []string{"groups", "items"} {
					if list, ok := body[key].([]any); ok {
						slices.SortStableFunc(list, func(a, b any) int {
							return strings.Compare(nameOf(a), nameOf(b))
						})
					}
				}
			}
			header := func(i int) map[string]any { h, _ := p.trees[i]["header"].(map[string]any); return h }
			asked, _ := header(0)["Content-Type"].(string)
			if answered, _ := header(1)["Content-Type"].(string); strings.HasPrefix(answered, "application/json") &&
				(p.code(0) == "406" ||
					!strings.HasPrefix(asked, "application/json") && strings.HasPrefix(asked, "application/")) {
				return p.accept()
			}
			return true
		},
	}, {
		name: "what is served",
		what: "discovery and OpenAPI leave out the kinds that belong to the cluster and that a tenant cannot read; " +
			"those of the stable APIs are announced ([the table](../reference/tenancy-tables.md#kinds)): " +
			"lists of them are empty, and what a tenant writes is refused with the reason",
		why: "tools list what discovery announces",
		examples: func(*parityRun) []*parityRequest {
			out := reads("/api/v1", "/apis", "/apis/storage.k8s.io/v1", "/openapi/v3", "/openapi/v3/api/v1",
				"/openapi/v3/apis/apps/v1", "/openapi/v2")
			aggregated := reads("/api", "/apis")
			for _, r := range aggregated {
				r.header = [][2]string{{"Accept",
					"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}}
			}
			return append(out, aggregated...)
		},
		explain: func(p *parityPair) bool {
			if p.request.resource != nil || p.code(0) != "200" && p.code(0) != "404" {
				return false
			}
			return leaveOut(p)
		},
	}, {
		name: "headers of documents",
		what: "documents of discovery and OpenAPI have an `Etag` in all forms, " +
			"and no `Last-Modified` and `Accept-Ranges`",
		why:      "they are made for each space and kept by their hash",
		examples: func(*parityRun) []*parityRequest { return reads("/apis/apps", "/openapi/v3/apis/apps/v1") },
		explain: func(p *parityPair) bool {
			if p.request.resource != nil || p.code(0) != p.code(1) || p.request.path != "/" &&
				!strings.HasPrefix(p.request.path, "/api") && !strings.HasPrefix(p.request.path, "/openapi") {
				return false
			}
			met := false
			for i := range p.trees {
				header, _ := p.trees[i]["header"].(map[string]any)
				for _, name := range []string{"Etag", "Last-Modified", "Accept-Ranges"} {
					if header[name] != nil {
						delete(header, name)
						met = true
					}
				}
				if vary, ok := header["Vary"].(string); ok && strings.HasSuffix(vary, "\nAccept-Encoding") {
					header["Vary"] = strings.TrimSuffix(vary, "\nAccept-Encoding")
					met = true
				}
			}
			return met
		},
	}}
}

// clusterKind tells the kinds that a tenant has not, or that are announced to it
// to be refused.
func clusterKind(group, resource string) bool {
	resource, _, _ = strings.Cut(resource, "/")
	k, ok := kinds.New().Resource(group, resource)
	return ok && k.Class == kinds.System
}

// leaveOut takes out of a document of the system space what a tenant's has not.
func leaveOut(p *parityPair) bool {
	met := leaveOutOf(p, 1)
	return leaveOutOf(p, 0) || met
}

// leaveOutOf takes out what is announced of the tenant's as well.
func leaveOutOf(p *parityPair, side int) bool {
	was, _ := json.Marshal(p.trees[side]["body"]) //nolint:errcheck // it is made of maps
	body, _ := p.trees[side]["body"].(map[string]any)
	group := strings.TrimPrefix(p.request.path, "/openapi/v3")
	if group = strings.TrimPrefix(group, "/apis/"); strings.HasPrefix(group, "/api") {
		group = ""
	}
	group, _, _ = strings.Cut(group, "/")
	keep := func(in map[string]any, key string, has func(map[string]any) bool) {
		list, ok := in[key].([]any)
		if !ok {
			return
		}
		var kept []any
		for _, item := range list {
			if m, ok := item.(map[string]any); !ok || has(m) {
				kept = append(kept, item)
			}
		}
		in[key] = kept
	}
	text := func(m map[string]any, key string) string { s, _ := m[key].(string); return s }
	switch body["kind"] {
	case "APIResourceList":
		keep(body, "resources", func(r map[string]any) bool { return !clusterKind(group, text(r, "name")) })
	case "APIGroupList":
		keep(body, "groups", func(g map[string]any) bool { return !ofCluster(text(g, "name")) })
	case "APIGroupDiscoveryList":
		keep(body, "items", func(g map[string]any) bool {
			meta, _ := g["metadata"].(map[string]any)
			name := text(meta, "name")
			keep(g, "versions", func(v map[string]any) bool {
				keep(v, "resources", func(r map[string]any) bool { return !clusterKind(name, text(r, "resource")) })
				return true
			})
			keep(g, "versions", func(v map[string]any) bool {
				list, _ := v["resources"].([]any)
				return len(list) > 0
			})
			list, _ := g["versions"].([]any)
			return len(list) > 0
		})
	default:
		if side == 1 {
			break
		}
		paths, _ := body["paths"].(map[string]any)
		for _, other := range []int{0, 1} { // by what a document is remembered
			b, _ := p.trees[other]["body"].(map[string]any)
			all, _ := b["paths"].(map[string]any)
			for _, path := range all {
				if m, ok := path.(map[string]any); ok && m["serverRelativeURL"] != nil {
					url, _, _ := strings.Cut(text(m, "serverRelativeURL"), "?")
					m["serverRelativeURL"] = strings.TrimPrefix(url,
						"/tenants/"+[]string{"system", parityTenant}[other])
				}
			}
		}
		theirs, _ := p.trees[1]["body"].(map[string]any)
		for path := range paths {
			if pathOfCluster(path) {
				delete(paths, path)
				// That of a group itself is left in OpenAPI v2.
				if all, ok := theirs["paths"].(map[string]any); ok && strings.Count(path, "/") < 5 &&
					strings.HasSuffix(path, "/") {
					delete(all, path)
				}
			}
		}
		// What only those paths refer to is gone with them.
		for _, at := range []string{"definitions", "components"} {
			own, other := body, theirs
			key := at
			if at == "components" {
				own, _ = body["components"].(map[string]any)
				other, _ = theirs["components"].(map[string]any)
				key = "schemas"
			}
			schemas, _ := own[key].(map[string]any)
			kept, _ := other[key].(map[string]any)
			for name := range schemas {
				if kept[name] == nil {
					delete(schemas, name)
				}
			}
		}
	}
	if side == 0 && ofCluster(group) && p.code(1) == "404" {
		return p.accept()
	}
	now, _ := json.Marshal(p.trees[side]["body"]) //nolint:errcheck // see above
	return string(was) != string(now)
}

// ofCluster tells the groups that have nothing for tenants.
func ofCluster(group string) bool {
	has := false
	for _, k := range kinds.Rows() {
		if k.Group == group {
			has = true
			if k.Class != kinds.System || k.Announced {
				return false
			}
		}
	}
	return has
}

// pathOfCluster tells the paths in OpenAPI of the kinds that tenants have not.
func pathOfCluster(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	group := ""
	switch {
	case len(parts) > 1 && parts[0] == "apis":
		group, parts = parts[1], parts[min(3, len(parts)):]
	case len(parts) > 1 && parts[0] == "api":
		parts = parts[2:]
	default:
		return parts[0] == "logs"
	}
	if ofCluster(group) {
		return true
	}
	if len(parts) > 0 && parts[0] == "watch" {
		parts = parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		return clusterPath(group, parts[2])
	}
	if len(parts) > 0 && kinds.IsNodes(group, parts[0]) {
		return len(parts) > 2 // of its subresources
	}
	return len(parts) > 0 && clusterPath(group, parts[0])
}

// clusterPath tells those that are not even announced.
func clusterPath(group, resource string) bool {
	k, ok := kinds.New().Resource(group, resource)
	return ok && k.Class == kinds.System && !k.Announced
}
