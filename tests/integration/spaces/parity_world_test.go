package spaces_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// The namespaces of both spaces that are compared. What is written for good is
// in parityScratch, the others stay as they are.
const (
	parityScratch = "par-s"
	parityGroup   = "parity.example.com"
)

// The names of tenants are words that nothing else has in it.
const (
	parityTenant   = "zqparity"
	parityStranger = "zqstranger"
)

func parityNamespaces() []string { return []string{"par-a", "par-b", parityScratch} }

// parityResource is one that the API serves.
type parityResource struct {
	group, version, name, kind string
	namespaced                 bool
	verbs                      []string
	subs                       []string // with their verbs
	subVerbs                   map[string][]string
	class                      kinds.Class
	custom                     bool
}

func (r *parityResource) root() string {
	if r.group == "" {
		return "/api/" + r.version
	}
	return "/apis/" + r.group + "/" + r.version
}

func (r *parityResource) apiVersion() string {
	if r.group == "" {
		return r.version
	}
	return r.group + "/" + r.version
}

func (r *parityResource) groupResource() string {
	if r.group == "" {
		return r.name
	}
	return r.name + "." + r.group
}

// path is where the resource, or an object of it, is.
func (r *parityResource) path(namespace, name string) string {
	path := r.root()
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	path += "/" + r.name
	if name != "" {
		path += "/" + name
	}
	return path
}

// parityResources are all that the system space serves, by its discovery.
func parityResources(t *testing.T, p *plane) []*parityResource {
	t.Helper()
	_, lists, err := p.admin.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	table := kinds.New()
	var all []*parityResource
	for _, list := range lists {
		group, version, ok := strings.Cut(list.GroupVersion, "/")
		if !ok {
			group, version = "", group
		}
		found := map[string]*parityResource{}
		for _, r := range list.APIResources {
			name, sub, isSub := strings.Cut(r.Name, "/")
			if isSub {
				if of := found[name]; of != nil {
					of.subs = append(of.subs, sub)
					of.subVerbs[sub] = r.Verbs
				}
				continue
			}
			one := &parityResource{group: group, version: version, name: r.Name, kind: r.Kind,
				namespaced: r.Namespaced, verbs: r.Verbs, subVerbs: map[string][]string{}}
			if k, ok := table.Resource(group, r.Name); ok {
				if one.class = k.Class; r.Name == tenantapi.Accesses {
					one.class = kinds.System // what is there in the system space is no tenant's
				}
			} else {
				one.custom = true
			}
			found[name] = one
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b *parityResource) int { return strings.Compare(a.path("", ""), b.path("", "")) })
	return all
}

// parityBody is a valid object of a resource, as JSON.
func parityBody(r *parityResource, namespace, name string, labels map[string]string) string {
	object := map[string]any{}
	body := bodies()[r.groupResource()]
	if more := parityBodies()[r.groupResource()]; more != "" {
		body = more
	}
	if r.group == "events.k8s.io" {
		body = `{"eventTime":"2026-01-01T00:00:00.000000Z","regarding":{"namespace":"` + namespace +
			`","name":"x"},"reportingController":"x.example.com/y","reportingInstance":"z","action":"a",` +
			`"reason":"r","type":"Normal"}`
	}
	if r.name == "customresourcedefinitions" {
		plural, group, _ := strings.Cut(name, ".")
		body = fmt.Sprintf(`{"spec":{"group":%q,"scope":"Namespaced","names":{"plural":%q,"kind":%q},`+
			`"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",`+
			`"properties":{"spec":{"type":"object","properties":{"n":{"type":"integer"}}}}}}}]}}`, group, plural,
			strings.ToUpper(plural[:1])+plural[1:])
	}
	if body != "" {
		body = strings.ReplaceAll(body, `"namespace":"default"`, `"namespace":"`+namespace+`"`)
		if err := json.Unmarshal([]byte(body), &object); err != nil {
			panic(fmt.Sprintf("%s: %v", r.groupResource(), err)) // it is written here
		}
	}
	meta := map[string]any{}
	if name != "" {
		meta["name"] = name
	}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	if len(labels) > 0 {
		meta["labels"] = labels
	}
	object["apiVersion"], object["kind"], object["metadata"] = r.apiVersion(), r.kind, meta
	out, err := json.Marshal(object)
	if err != nil {
		panic(err) // maps and strings
	}
	return string(out)
}

// parityBodies are richer than the smallest valid objects.
func parityBodies() map[string]string {
	const pod = `"spec":{"schedulerName":"nobody","serviceAccountName":"default","containers":[{"name":"c",` +
		`"image":"i","ports":[{"containerPort":80,"name":"http"}],"env":[{"name":"A","value":"b"}],` +
		`"resources":{"requests":{"cpu":"1m"}}}],"volumes":[{"name":"v","emptyDir":{}}]}`
	return map[string]string{
		"pods":       `{` + pod + `}`,
		"configmaps": `{"data":{"k":"v","other":"w"}}`,
		"secrets":    `{"data":{"k":"dg=="},"type":"Opaque"}`,
		"services": `{"spec":{"selector":{"app":"web"},` +
			`"ports":[{"name":"http","port":80,"targetPort":"http"}]}}`,
		"endpoints": `{"subsets":[{"addresses":[{"ip":"192.0.2.77"}],` +
			`"ports":[{"port":80}]}]}`,
		"events": `{"involvedObject":{"kind":"Pod","namespace":"default","name":"par-1"},` +
			`"reason":"R","message":"m","type":"Normal"}`,
		"endpointslices.discovery.k8s.io": `{"addressType":"IPv4","endpoints":[{"addresses":["192.0.2.77"]}],` +
			`"ports":[{"port":80}]}`,
		"roles.rbac.authorization.k8s.io": `{"rules":[{"verbs":["get"],"apiGroups":[""],` +
			`"resources":["pods"]}]}`,
		"clusterroles.rbac.authorization.k8s.io": `{"rules":[{"verbs":["get"],"apiGroups":[""],` +
			`"resources":["pods"]}]}`,
		"rolebindings.rbac.authorization.k8s.io": `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io",` +
			`"kind":"ClusterRole","name":"view"},"subjects":[{"kind":"ServiceAccount","name":"par-1",` +
			`"namespace":"default"},{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"bob"}]}`,
		"clusterrolebindings.rbac.authorization.k8s.io": `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io",` +
			`"kind":"ClusterRole","name":"view"},"subjects":[{"kind":"ServiceAccount","name":"par-1",` +
			`"namespace":"par-a"}]}`,
		"deployments.apps": `{"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},` +
			`"template":{"metadata":{"labels":{"app":"web"}},` + pod + `}}}`,
		"statefulsets.apps": `{"spec":{"serviceName":"par-1","replicas":1,"selector":{"matchLabels":{"app":"web"}},` +
			`"template":{"metadata":{"labels":{"app":"web"}},` + pod + `}}}`,
		"pars." + parityGroup:        `{"spec":{"size":1,"note":"x"}}`,
		"parcs." + parityGroup:       `{"spec":{"anything":{"goes":true}}}`,
		"leases.coordination.k8s.io": `{"spec":{"holderIdentity":"x","leaseDurationSeconds":10}}`,
		"subjectaccessreviews.authorization.k8s.io": `{"spec":{"user":"bob","groups":["system:authenticated"],` +
			`"resourceAttributes":{"namespace":"par-a","verb":"get","resource":"pods"}}}`,
		"localsubjectaccessreviews.authorization.k8s.io": `{"spec":{"user":"bob",` +
			`"resourceAttributes":{"namespace":"default","verb":"get","resource":"pods"}}}`,
		"selfsubjectaccessreviews.authorization.k8s.io": `{"spec":{"resourceAttributes":{"namespace":"par-a",` +
			`"verb":"get","resource":"pods"}}}`,
		"selfsubjectrulesreviews.authorization.k8s.io": `{"spec":{"namespace":"par-a"}}`,
		"selfsubjectreviews.authentication.k8s.io":     `{}`,
		"tokenreviews.authentication.k8s.io":           `{"spec":{"token":"nobody's"}}`,
		"priorityclasses.scheduling.k8s.io":            `{"value":1000}`,
		"storageclasses.storage.k8s.io":                `{"provisioner":"none.example.com"}`,
		"ingressclasses.networking.k8s.io":             `{"spec":{"controller":"example.com/x"}}`,
		"runtimeclasses.node.k8s.io":                   `{"handler":"x"}`,
		"daemonsets.apps": `{"spec":{"selector":{"matchLabels":{"app":"web"}},` +
			`"template":{"metadata":{"labels":{"app":"web"}},` + pod + `}}}`,
	}
}

// parityDefinitions are those that both spaces make.
func parityDefinitions() []string {
	const names = `"names":{"plural":"pars","singular":"par","kind":"Par","shortNames":["pr"],"categories":["all"]}`
	const schema = `"schema":{"openAPIV3Schema":{"type":"object","required":["spec"],"properties":{"spec":{` +
		`"type":"object","properties":{"size":{"type":"integer","minimum":0,"maximum":9},"note":{"type":"string",` +
		`"default":"none"},"ref":{"type":"object","properties":{"namespace":{"type":"string"}}}},` +
		`"x-kubernetes-validations":[{"rule":"!has(self.size) || self.size < 9","message":"too large"}]},` +
		`"status":{"type":"object","properties":{"size":{"type":"integer"}}}}}},"additionalPrinterColumns":[{` +
		`"name":"Size","type":"integer","jsonPath":".spec.size"}],"selectableFields":[{"jsonPath":".spec.note"}],` +
		`"subresources":{"status":{},"scale":{"specReplicasPath":".spec.size","statusReplicasPath":".status.size"}}`
	return []string{
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"pars.` +
			parityGroup + `"},"spec":{"group":"` + parityGroup + `","scope":"Namespaced",` + names +
			`,"versions":[{"name":"v1","served":true,"storage":true,` + schema +
			`},{"name":"v1beta1","served":true,"storage":false,"deprecated":true,` + schema + `}]}}`,
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"parcs.` +
			parityGroup + `"},"spec":{"group":"` + parityGroup + `","scope":"Cluster","names":{"plural":"parcs",` +
			`"kind":"Parc"},"versions":[{"name":"v1","served":true,"storage":true,` +
			`"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`,
	}
}

// must sends a request of the setup.
func (s *paritySide) must(t *testing.T, method, path, body string) {
	t.Helper()
	a, err := s.send(t.Context(), &parityRequest{method: method, path: path, body: body,
		header: [][2]string{{"Content-Type", "application/json"}}}, prefixForm)
	if err != nil {
		t.Fatal(err)
	}
	if a.code >= http.StatusMultipleChoices {
		t.Fatalf("%s: %s %s\n%s\nanswered %d %s", s.space, method, path, body, a.code, a.body)
	}
}

// fillParity makes the same objects in the same order in a space.
func fillParity(t *testing.T, s *paritySide, resources []*parityResource) {
	t.Helper()
	for _, ns := range parityNamespaces() {
		s.must(t, http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"`+ns+`","labels":{"app":"web"}}}`)
	}
	eventually(t, "the service accounts of "+s.space, func(ctx context.Context) (bool, error) {
		for _, ns := range parityNamespaces() {
			for _, path := range []string{"/serviceaccounts/default", "/configmaps/kube-root-ca.crt"} {
				a, err := s.send(ctx,
					&parityRequest{method: http.MethodGet, path: "/api/v1/namespaces/" + ns + path}, prefixForm)
				if err != nil || a.code != http.StatusOK {
					return false, err
				}
			}
		}
		return true, nil
	})
	made := map[string]bool{}
	for _, r := range resources {
		if r.class != kinds.Tenant || !slices.Contains(r.verbs, "create") || !slices.Contains(r.verbs, "list") ||
			made[r.groupResource()] {
			continue
		}
		if r.name == "namespaces" || r.name == "customresourcedefinitions" || r.group == "events.k8s.io" {
			continue
		}
		made[r.groupResource()] = true
		for i, app := range []string{"web", "web", "db"} {
			for _, ns := range parityNamespaces()[:2] {
				name := fmt.Sprintf("par-%d", i+1)
				if !r.namespaced {
					name, ns = name+"-"+ns, ""
				}
				s.must(t, http.MethodPost, r.path(ns, ""), parityBody(r, ns, name, map[string]string{"app": app}))
			}
		}
	}
}

// defineParity makes the CRDs and waits until they serve.
func defineParity(t *testing.T, s *paritySide) {
	t.Helper()
	for _, crd := range parityDefinitions() {
		s.must(t, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
	}
	eventually(t, "the custom resources of "+s.space, func(ctx context.Context) (bool, error) {
		for _, path := range []string{"/v1/pars", "/v1beta1/pars", "/v1/parcs"} {
			a, err := s.send(ctx,
				&parityRequest{method: http.MethodGet, path: "/apis/" + parityGroup + path}, prefixForm)
			if err != nil || a.code != http.StatusOK {
				return false, err
			}
		}
		a, err := s.send(ctx, &parityRequest{method: http.MethodGet, path: "/apis/" + parityGroup + "/v1"}, prefixForm)
		return err == nil && strings.Contains(string(a.body), "parcs") &&
			strings.Contains(string(a.body), "pars/scale"), err
	})
}

// ofParity reports whether an object is one that both spaces have.
func ofParity(meta map[string]any) bool {
	if ns, ok := meta["namespace"].(string); ok && ns != "" {
		return slices.Contains(parityNamespaces(), ns)
	}
	name, _ := meta["name"].(string)
	if _, composite := strings.CutSuffix(name, ".tenant"); composite || strings.HasSuffix(name, "."+parityTenant) ||
		strings.HasSuffix(name, "."+parityStranger) {
		return false
	}
	return strings.HasPrefix(name, "par-") || strings.HasPrefix(name, "gen-") ||
		strings.HasSuffix(name, "."+parityGroup)
}

// parityRepair is the reason of an event that the cluster writes about a Service if it
// hears of the Service before it hears of its address. It may in one space only.
const parityRepair = "ClusterIPAllocation"

// isRepair tells such an event, in a list, a watch or a table.
func isRepair(item any) bool {
	raw, err := json.Marshal(item)
	return err == nil && bytes.Contains(raw, []byte(`"`+parityRepair+`"`))
}

// onlyParity leaves those objects of lists and watches that both spaces have,
// and reports whether it left others out.
func onlyParity(tree any, r *parityRequest) (any, bool) {
	if r.resource == nil || r.name != "" || r.resource.class == kinds.Shared {
		return tree, false
	}
	all := slices.Contains(parityNamespaces(), r.namespace)
	if all && r.resource.name != "events" {
		return tree, false
	}
	left := false
	keep := func(list []any, of func(any) any) []any {
		var kept []any
		for _, item := range list {
			if isRepair(item) {
				left = true
				continue
			}
			if all {
				kept = append(kept, item)
				continue
			}
			object, _ := of(item).(map[string]any)
			if meta, ok := object["metadata"].(map[string]any); ok &&
				(meta["name"] != nil || meta["namespace"] != nil) && !ofParity(meta) {
				left = true
				continue
			}
			kept = append(kept, item)
		}
		return kept
	}
	self := func(item any) any { return item }
	field := func(name string) func(any) any {
		return func(item any) any { m, _ := item.(map[string]any); return m[name] }
	}
	list := func(object map[string]any) {
		for key, of := range map[string]func(any) any{"items": self, "rows": field("object")} {
			if items, ok := object[key].([]any); ok {
				object[key] = keep(items, of)
			}
		}
		if meta, ok := object["metadata"].(map[string]any); ok && left {
			delete(meta, "remainingItemCount")
		}
	}
	switch n := tree.(type) {
	case map[string]any:
		list(n)
	case []any: // of events
		var kept []any
		for _, event := range n {
			object, _ := field("object")(event).(map[string]any)
			if rows, ok := object["rows"].([]any); ok {
				if object["rows"] = keep(rows, field("object")); len(rows) > 0 && object["rows"].([]any) == nil {
					continue
				}
			}
			kept = append(kept, event)
		}
		tree = keep(kept, field("object"))
	}
	return tree, left
}
