package spaces_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// parityIntention is a difference between a tenant's API and a cluster's that
// is meant to be.
type parityIntention struct {
	name, what, why string
	// examples are requests that show it.
	examples func(*parityRun) []*parityRequest
	// explain takes it out of a pair of answers and reports whether it was there.
	explain func(*parityPair) bool
}

// code is the status of an answer.
func (p *parityPair) code(side int) string { s, _ := p.trees[side]["code"].(string); return s }

// message is what an answer says in its Status.
func (p *parityPair) message(side int) string {
	body, _ := p.trees[side]["body"].(map[string]any)
	message, _ := body["message"].(string)
	return message
}

// accept takes the answer to the tenant as it is.
func (p *parityPair) accept() bool {
	p.trees[1] = p.trees[0]
	return true
}

// refused reports whether the tenant is refused with one of these texts at the end
// or, in an answer without a body, at all.
func (p *parityPair) refused(code string, texts ...string) bool {
	if p.code(1) != code {
		return false
	}
	if p.request.method == http.MethodHead {
		return true
	}
	return slices.ContainsFunc(texts, func(text string) bool {
		return text != "" && strings.Contains(p.message(1), text)
	})
}

// asks makes requests about one resource.
func asks(run *parityRun, groupResource string, of ...parityRequest) []*parityRequest {
	resource := run.resource(groupResource)
	var out []*parityRequest
	for _, r := range of {
		r.resource = resource
		if resource.namespaced && r.namespace == "" {
			r.namespace = "par-a"
		}
		r.path = resource.path(r.namespace, r.name) + r.path
		if r.body != "" && r.header == nil {
			r.header = [][2]string{{"Content-Type", "application/json"}}
		}
		r.forms[1] = prefixForm
		out = append(out, &r)
	}
	return out
}

// reads are requests for paths that are not about objects.
func reads(paths ...string) []*parityRequest {
	var out []*parityRequest
	for _, path := range paths {
		out = append(out, &parityRequest{method: http.MethodGet, path: path, forms: [2]int{shortForm, prefixForm}})
	}
	return out
}

func parityIntentions() []*parityIntention {
	return slices.Concat(parityRefusals(), parityGuards(), parityPods(), parityContents(), parityDocuments())
}

// parityRefusals are what a tenant is not allowed.
func parityRefusals() []*parityIntention {
	return []*parityIntention{{
		name: "kinds of the cluster",
		what: "403 for the kinds that belong to the cluster ([the table](../reference/tenancy-tables.md#kinds)), " +
			"among them DaemonSets, whatever else is wrong with the request; nodes can be read, and unless " +
			"the Tenant has `spec.nodes: ReadOnly` there are none",
		why: "all tenants share the nodes and the control plane",
		examples: func(run *parityRun) []*parityRequest {
			return slices.Concat(
				asks(run, "nodes", parityRequest{method: "GET"}, parityRequest{method: "GET", name: "par-1"}),
				asks(run, "daemonsets.apps", parityRequest{method: "GET"},
					parityRequest{method: "POST", body: `{}`, query: []string{"dryRun=All"}}),
			)
		},
		explain: func(p *parityPair) bool {
			r := p.request.resource
			if r == nil {
				return false
			}
			resource := r.name
			if r.group == "" && r.name == "pods" && strings.Contains(p.request.path, "/binding") {
				resource = "bindings"
			}
			kind, ok := kinds.New().Resource(r.group, resource)
			if ok && kinds.IsNodes(r.group, resource) && p.request.method == http.MethodGet &&
				slices.Contains([]string{"200", "404"}, p.code(0)) {
				return p.accept()
			}
			return ok && kind.Class == kinds.System && p.refused("403", kind.Why) && p.accept()
		},
	}, {
		name: "kinds that all share",
		what: "403 for writing to the kinds that every space reads (the same table), such as StorageClasses; " +
			"every user of a tenant reads them, without a role",
		why: "they are the same for all",
		examples: func(run *parityRun) []*parityRequest {
			return asks(run, "storageclasses.storage.k8s.io", parityRequest{
				method: "DELETE",
				name:   "par-1",
				query:  []string{"dryRun=All"},
			}, parityRequest{method: "GET", header: [][2]string{{"Impersonate-User", "bob"}}})
		},
		explain: func(p *parityPair) bool {
			r := p.request.resource
			if r != nil && r.class == kinds.Shared && p.code(0) == "403" &&
				strings.Contains(fmt.Sprint(p.request.header), "Impersonate-User") {
				return p.accept()
			}
			return r != nil && r.class == kinds.Shared && p.refused("403",
				"are made by the administrators of the cluster, tenants can get, list and watch them") && p.accept()
		},
	}, {
		name: "API services",
		what: "those are listed that every cluster has, of the groups that tenants have",
		why:  "tenants' own resources are not in the aggregation layer",
		examples: func(run *parityRun) []*parityRequest {
			return asks(run, "apiservices.apiregistration.k8s.io", parityRequest{method: "GET"})
		},
		explain: func(p *parityPair) bool {
			r := p.request.resource
			return r != nil && r.name == "apiservices" && p.request.name == "" && p.code(0) == "200" &&
				p.code(1) == "200" && p.accept()
		},
	}, {
		name: "use of the limits",
		what: "there is a TenantUsage, which says what the space uses of its limits",
		why:  "the cluster itself has no limits of this kind",
		examples: func(run *parityRun) []*parityRequest {
			return asks(run, "tenantusages", parityRequest{method: "GET"}, parityRequest{method: "GET", name: "usage"})
		},
		explain: func(p *parityPair) bool {
			r := p.request.resource
			return r != nil && r.group == "" && r.name == "tenantusages" && p.code(1) == "200" &&
				slices.Contains([]string{"200", "404"}, p.code(0)) && p.accept()
		},
	}, {
		name: "accesses",
		what: "a TenantAccess is to the space that it is in, and who makes one has to have the rights that it gives",
		why:  "in the system space they are to any tenant, and are made by administrators of the cluster",
		examples: func(run *parityRun) []*parityRequest {
			return asks(run, tenantapi.Accesses, parityRequest{method: "POST", query: []string{"dryRun=All"},
				body: `{"metadata":{"name":"par-1"},"spec":{"user":"x","secret":{"namespace":"par-a","name":"x"}}}`})
		},
		explain: func(p *parityPair) bool {
			r := p.request.resource
			return r != nil && r.group == "" && r.name == tenantapi.Accesses && p.accept()
		},
	}, {
		name: "default roles",
		what: "403 for writing to the ClusterRoles `cluster-admin`, `admin`, `edit`, `view` and `system:...`",
		why:  "they are the same for all",
		examples: func(run *parityRun) []*parityRequest {
			return asks(run, "clusterroles.rbac.authorization.k8s.io",
				parityRequest{method: "DELETE", name: "view", query: []string{"dryRun=All"}})
		},
		explain: func(p *parityPair) bool {
			return p.refused("403", "the default roles are the same in all spaces and are changed by the "+
				"administrators of the cluster") && p.accept()
		},
	}, {
		name: "paths of the cluster",
		what: "403 for `/metrics`, `/logs`, `/debug`, the single checks of `/livez` and `/readyz`, " +
			"and every path that is neither discovery, OpenAPI, version nor health; `/` lists the others",
		why:      "what they tell is about all tenants",
		examples: func(*parityRun) []*parityRequest { return reads("/metrics", "/readyz/ping", "/nothing", "/") },
		explain: func(p *parityPair) bool {
			if p.request.path == "/" && p.code(0) == "200" && p.code(1) == "200" {
				for i := range p.trees {
					body, _ := p.trees[i]["body"].(map[string]any)
					delete(body, "paths")
				}
				return true
			}
			return p.request.resource == nil && p.refused("403", "belongs to the cluster") && p.accept()
		},
	}}
}

// parityContents are what objects of tenants have and have not.
func parityContents() []*parityIntention {
	return []*parityIntention{{
		name: "whose it is",
		what: "`metadata` has the fields `tenant` and `selfLink`, whatever a patch says of them; " +
			"the tenant of what all share is `system`",
		why: "an object says whose it is, wherever it is taken",
		examples: func(run *parityRun) []*parityRequest {
			return slices.Concat(asks(run, "pods", parityRequest{method: "GET", name: "par-1"}),
				asks(run, "clusterroles.rbac.authorization.k8s.io", parityRequest{method: "GET", name: "view"}))
		},
		explain: func(p *parityPair) bool {
			met := false
			for i := range p.trees {
				own := []string{"system", parityTenant}[i]
				walk(p.trees[i]["body"], func(node map[string]any) {
					meta, ok := node["metadata"].(map[string]any)
					if !ok {
						return
					}
					of := meta["tenant"]
					if of == own || of == "system" && p.mayBeShared() {
						delete(meta, "tenant")
						met = true
					}
					link, _ := meta["selfLink"].(string)
					if link != "" && i == 0 && strings.Contains(p.request.body, link) || strings.Contains(link,
						"/tenants/"+own+"/") || strings.Contains(link, "/tenants/system/") && p.mayBeShared() {
						delete(meta, "selfLink")
						met = true
					}
				})
			}
			return met
		},
	}, {
		name: "keys",
		what: "where an error shows the key of an object in the datastore, the tenant is in it",
		why:  "that is where it is",
		examples: func(run *parityRun) []*parityRequest {
			return asks(run, "configmaps", parityRequest{method: "PUT", name: "par-1",
				body: `{"metadata":{"name":"par-1","uid":"00000000-0000-0000-0000-000000000001"}}`})
		},
		explain: func(p *parityPair) bool {
			body, _ := p.trees[1]["body"].(map[string]any)
			without := strings.Replace(p.message(1), "/"+parityTenant+"/", "/", 1)
			if !strings.Contains(without, "Key: /registry/") || without == p.message(1) {
				return false
			}
			body["message"] = without
			return true
		},
	}, {
		name: "the label of the space",
		what: "the space gives some objects the label `a4s.io/tenant`. An error that shows a whole object shows it. " +
			"Of it `managedFields` has an empty `f:labels`, or an entry without fields, and does not say who made " +
			"`labels`. A JSON patch finds `labels` where the tenant has set none",
		why: "selectors of all spaces are confined by it",
		examples: func(run *parityRun) []*parityRequest {
			return asks(run, "mutatingadmissionpolicies.admissionregistration.k8s.io",
				parityRequest{method: "PATCH", name: "par-1-par-a", query: []string{"dryRun=All"},
					header: [][2]string{{"Content-Type", "application/merge-patch+json"}}, body: `{"kind":"Nothing"}`})
		},
		explain: func(p *parityPair) bool {
			if p.request.method == http.MethodPatch && strings.Contains(p.request.body, `"/metadata/labels/`) &&
				p.code(0) == "422" && p.code(1) == "200" {
				return p.accept()
			}
			met := p.labelsWereThere()
			walk(p.trees[1]["body"], func(node map[string]any) {
				if meta, ok := node["f:metadata"].(map[string]any); ok {
					if labels, ok := meta["f:labels"].(map[string]any); ok && len(labels) == 0 {
						delete(meta, "f:labels")
						met = true
						if len(meta) == 0 {
							delete(node, "f:metadata")
						}
					}
				}
				for key, v := range node {
					if text, ok := v.(string); ok {
						node[key] = strings.ReplaceAll(text, `\"a4s.io/tenant\":\"`+parityTenant+`\",`, "")
						met = met || node[key] != text
					}
				}
			})
			walk(p.trees[1]["body"], func(node map[string]any) {
				if entries, ok := node["managedFields"].([]any); ok {
					left := slices.DeleteFunc(entries, func(e any) bool {
						entry, _ := e.(map[string]any)
						fields, ok := entry["fieldsV1"].(map[string]any)
						return ok && len(fields) == 0
					})
					if node["managedFields"] = left; len(left) == 0 {
						delete(node, "managedFields")
					}
					met = met || len(left) < len(entries)
				}
			})
			return met
		},
	}, {
		name: "tokens",
		what: "the claims of a service account's token have the tenant in the namespace and in the subject ([users " +
			"and groups](users.md#users-and-groups))",
		why: "a verifier outside of the cluster has to tell the accounts of two tenants apart",
		examples: func(run *parityRun) []*parityRequest {
			return asks(run, "serviceaccounts",
				parityRequest{method: "POST", name: "par-1", path: "/token", body: `{"spec":{"audiences":["x"]}}`})
		},
		explain: func(p *parityPair) bool {
			met := false
			walk(p.trees[1]["body"], func(node map[string]any) {
				claims, ok := node["claims"].(map[string]any)
				if !ok {
					return
				}
				subject, _ := claims["sub"].(string)
				of, _ := claims["kubernetes.io"].(map[string]any)
				namespace, _ := of["namespace"].(string)
				if of == nil || !strings.HasSuffix(namespace, "."+parityTenant) {
					return
				}
				claims["sub"], of["namespace"], met = strings.Replace(subject, "."+parityTenant+":", ":", 1),
					strings.TrimSuffix(namespace, "."+parityTenant), true
			})
			return met
		},
	}, {
		name: "rules of a user",
		what: "a SelfSubjectRulesReview lists the paths and the kinds by what the tenant may be allowed, `*` for none",
		why:  "the roles of a tenant give nothing of the cluster",
		examples: func(run *parityRun) []*parityRequest {
			return asks(run, "selfsubjectrulesreviews.authorization.k8s.io",
				parityRequest{method: "POST", body: `{"spec":{"namespace":"par-a"}}`})
		},
		explain: func(p *parityPair) bool {
			if p.request.resource == nil || p.request.resource.name != "selfsubjectrulesreviews" ||
				p.code(0) != p.code(1) {
				return false
			}
			met := false
			for i := range p.trees {
				body, _ := p.trees[i]["body"].(map[string]any)
				if status, ok := body["status"].(map[string]any); ok && status["resourceRules"] != nil {
					delete(status, "resourceRules")
					delete(status, "nonResourceRules")
					met = true
				}
			}
			return met
		},
	}, {
		name: "users in reviews",
		what: "`managedFields` of reviews, which dry runs and errors show, name the user's attribute `a4s.io/tenant`",
		why:  "it says inside whose user is asked about",
		examples: func(run *parityRun) []*parityRequest {
			return asks(run, "localsubjectaccessreviews.authorization.k8s.io", parityRequest{
				method: "POST",
				body: `{"metadata":{"namespace":"par-a","labels":{"a":"b"}},` +
					`"spec":{"user":"bob","resourceAttributes":{"namespace":"par-a","verb":"get","resource":"pods"}}}`,
			})
		},
		explain: func(p *parityPair) bool {
			if r := p.request.resource; r == nil || !kinds.IsReview(r.group) || p.code(0) != p.code(1) {
				return false
			}
			met := false
			walk(p.trees[1]["body"], func(node map[string]any) {
				for key, v := range node {
					switch v := v.(type) {
					case string:
						without := strings.ReplaceAll(v, `,"f:spec":{"f:extra":{".":{},"f:a4s.io/tenant":{}}}`, "")
						without = strings.ReplaceAll(without, `"f:extra":{".":{},"f:a4s.io/tenant":{}},`, "")
						met = met || without != v
						node[key] = without
					case map[string]any:
						// The attribute, and what has nothing else in it.
						if key == "f:extra" && v["f:a4s.io/tenant"] != nil ||
							len(v) == 1 && v["f:user"] != nil && key == "f:status" {
							delete(node, key)
							met = true
						}
					}
				}
			})
			return met
		},
	}, {
		name: "bodies that cannot be read",
		what: "a body that is not JSON, YAML or protobuf is refused with other words, and before other mistakes of " +
			"the request; which of several fields that a patch cannot have is named can differ; " +
			"an error that shows a whole body of YAML shows it as JSON",
		why: "names in a body are translated before the API server reads it",
		examples: func(run *parityRun) []*parityRequest {
			return asks(run, "configmaps", parityRequest{method: "POST", body: `{"metadata":`})
		},
		explain: func(p *parityPair) bool {
			if undeclared.MatchString(p.message(0)) && undeclared.MatchString(p.message(1)) {
				for i := range p.trees {
					if body, ok := p.trees[i]["body"].(map[string]any); ok {
						body["message"] = undeclared.ReplaceAllString(p.message(i), "<field>$1")
					}
				}
				return true
			}
			if at := showsBody.FindStringIndex(p.message(0)); at != nil && p.code(0) == p.code(1) &&
				strings.HasPrefix(p.message(1), p.message(0)[:at[1]]) {
				before := p.message(0)[:at[1]]
				for i := range p.trees {
					if body, ok := p.trees[i]["body"].(map[string]any); ok {
						body["message"] = before
					}
				}
				return true
			}
			return p.code(0) >= "400" && (p.refused("400", "malformed body: ") || p.code(1) == "415") && p.accept()
		},
	}, {
		name: "kinds in other cases",
		what: "400 for a body with the keys `kind` or `apiVersion` in upper case",
		why:  "the API server takes them for the same key, so that a body could say two kinds",
		examples: func(run *parityRun) []*parityRequest {
			return asks(run, "configmaps", parityRequest{method: "POST", query: []string{"dryRun=All"},
				body: `{"metadata":{"name":"x"},"KIND":"ConfigMap"}`})
		},
		explain: func(p *parityPair) bool {
			return p.refused("400", "is the key kind", "is the key apiVersion") && p.accept()
		},
	}, {
		name: "namespaces with made-up names",
		what: "`managedFields` of a namespace that was made with `generateName` has the label " +
			"`kubernetes.io/metadata.name`",
		why: "its name is made up before the API server sees it, because the tenant is part of it",
		examples: func(run *parityRun) []*parityRequest {
			return asks(run, "namespaces", parityRequest{method: "POST", query: []string{"dryRun=All"},
				body: `{"metadata":{"generateName":"gen-","labels":{"a":"b"}}}`})
		},
		explain: func(p *parityPair) bool {
			r, met := p.request.resource, false
			if r == nil || r.groupResource() != "namespaces" || !strings.Contains(p.request.body, "gen-") {
				return false
			}
			walk(p.trees[1]["body"], func(node map[string]any) {
				if labels, ok := node["f:labels"].(map[string]any); ok &&
					labels["f:kubernetes.io/metadata.name"] != nil {
					delete(labels, "f:kubernetes.io/metadata.name")
					met = true
				}
			})
			return met
		},
	}, {
		name: "what is not there",
		what: "404 for a resource that the space has not is a Status that names it; " +
			"a path that begins with `//` is read as if it had one, and one with `.` or `..` for a name gets 400",
		why: "the space has other resources than the API server behind it",
		examples: func(*parityRun) []*parityRequest {
			return reads("/apis/"+parityGroup+"/v1/nothings", "/apis/none.example.com/v1/nothings",
				"//api/v1/namespaces/par-a", "/api/v1/namespaces/par-a/pods/..")
		},
		explain: func(p *parityPair) bool {
			if strings.HasPrefix(p.request.path, "//") && p.code(0) == "404" {
				return p.accept()
			}
			if p.code(0) >= "400" && p.refused("400", "has a segment that is not a name") {
				return p.accept()
			}
			// Upstream asks for the rights of an impersonated user first.
			return (p.code(0) == "404" || p.code(0) == "403") &&
				p.refused("404", "the server could not find the requested resource") && p.accept()
		},
	}}
}

// undeclared is how a field is named that a schema has not.
var undeclared = regexp.MustCompile(`\S+(: field not declared in schema)`)

// showsBody is what stands in an error before the body that could not be read.
var showsBody = regexp.MustCompile(`is missing in '|unexpected GroupVersion string: \S+ \(`)

// mayBeShared reports whether an answer may have objects of the system space.
func (p *parityPair) mayBeShared() bool {
	r := p.request.resource
	return r != nil && (r.class == kinds.Shared || r.name == "clusterroles")
}

// labelsWereThere reports whether who set the first label of the object in the system
// made its labels, and did not in the tenant, where there was one already.
func (p *parityPair) labelsWereThere() bool {
	labelsOf := func(tree map[string]any) (all []map[string]any) {
		body, _ := tree["body"].(map[string]any)
		meta, _ := body["metadata"].(map[string]any)
		managers, _ := meta["managedFields"].([]any)
		for _, manager := range managers {
			entry, _ := manager.(map[string]any)
			fields, _ := entry["fieldsV1"].(map[string]any)
			of, _ := fields["f:metadata"].(map[string]any)
			labels, _ := of["f:labels"].(map[string]any)
			all = append(all, labels)
		}
		return all
	}
	met := false
	system, tenant := labelsOf(p.trees[0]), labelsOf(p.trees[1])
	for i := range min(len(system), len(tenant)) {
		if _, made := system[i]["."]; !made || len(tenant[i]) == 0 {
			continue
		}
		if _, made := tenant[i]["."]; !made {
			delete(system[i], ".")
			met = true
		}
	}
	return met
}
