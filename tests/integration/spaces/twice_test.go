package spaces_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// patched is the whole object in a message about a patch: its times and UIDs differ,
// and it has what confines its selectors.
var patched = regexp.MustCompile(`patch: Invalid value: "\{.*\}": `)

// comparable is an answer without what differs between two spaces.
func comparable(t *testing.T, r reply) (int, []string, map[string]any) {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(r.body), &object); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
	if message, ok := object["message"].(string); ok {
		object["message"] = patched.ReplaceAllString(message, "patch: ")
	}
	if details, ok := object["details"].(map[string]any); ok {
		delete(details, "causes") // they have the message again
	}
	if meta, ok := object["metadata"].(map[string]any); ok {
		maps.DeleteFunc(meta, func(key string, _ any) bool {
			switch key {
			case "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "tenant", "selfLink":
				return true
			}
			return false
		})
		if object["kind"] == "Deployment" { // its controller writes meanwhile
			delete(object, "status")
			unstructured.RemoveNestedField(object, "metadata", "annotations", "deployment.kubernetes.io/revision")
			if annotations, ok := meta["annotations"].(map[string]any); ok && len(annotations) == 0 {
				delete(meta, "annotations")
			}
		}
	}
	return r.code, r.warnings, object
}

// testTwice: keys that come twice, and fields that nobody knows, are answered in a
// tenant's space as by the API server itself, which the short path of the system is.
func testTwice(t *testing.T, p *plane, a *space) {
	const group = "twice.example.com"
	sized := specified(map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer"},
		"other": {Type: "integer"}})
	for _, s := range []*space{p.as(t, "system", p.Admin), a} {
		s.define(t, definition(group, sized))
		for path, body := range map[string]string{
			"/apis/apps/v1/namespaces/default/deployments": deploymentBody("one", ""),
			"/apis/" + group + "/v1/namespaces/default/foos": `{"apiVersion":"` + group +
				`/v1","kind":"Foo","metadata":{"name":"one"},"spec":{"size":1}}`,
			"/apis/rbac.authorization.k8s.io/v1/clusterroles": `{"metadata":{"name":"one"}}`,
			"/apis/networking.k8s.io/v1/namespaces/default/networkpolicies": `{"metadata":{"name":"one"},` +
				`"spec":{"podSelector":{}}}`,
		} {
			if r := send(t, s.config, http.MethodPost, path, "application/json", body); r.code != http.StatusCreated {
				t.Fatal(r)
			}
		}
	}
	const deployments, foos, policies = "/apis/apps/v1/namespaces/default/deployments", "/apis/" + group +
		"/v1/namespaces/default/foos", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
	const fooHead = "apiVersion: " + group + "/v1\nkind: Foo\n"
	cases := []struct{ name, method, path, media, body string }{
		{"nothing", http.MethodPost, deployments, "application/json", deploymentBody("new", "")},
		{"a field", http.MethodPost, deployments, "application/json",
			deploymentBody("new", `"replicas":2,"replicas":3,"unknown":1,`)},
		{"names", http.MethodPost, deployments, "application/json", strings.Replace(deploymentBody("new", ""),
			`"name":`, `"name":"old","namespace":"default","namespace":"default","name":`, 1)},
		{"namespaces that differ", http.MethodPost, deployments, "application/json", strings.Replace(
			deploymentBody("new", ""), `"name":`, `"namespace":"other","namespace":"default","name":`, 1)},
		{"labels", http.MethodPost, deployments, "application/json", strings.Replace(deploymentBody("new", ""),
			`"name":`, `"labels":{"a":"b","c":"d"},"labels":{"a":"x"},"name":`, 1)},
		{"metadata", http.MethodPost, deployments, "application/json",
			strings.Replace(deploymentBody("new", ""), `"kind"`, `"metadata":{"annotations":{"a":"b"}},"kind"`, 1)},
		{"kinds", http.MethodPost, deployments, "application/json", strings.Replace(deploymentBody("new", ""),
			`"kind"`, `"kind":"Deployment","apiVersion":"apps/v1","kind"`, 1)},
		{"of a service account", http.MethodPost, deployments, "application/json",
			strings.Replace(deploymentBody("new", ""), `"containers"`,
				`"serviceAccountName":"a","serviceAccountName":"b","containers"`, 1)},
		{"YAML", http.MethodPost, deployments, "application/yaml",
			deploymentYAML("  replicas: 2\n\n\n  replicas: 3\n  unknown: 1\n", "")},
		{"names in YAML", http.MethodPost, deployments, "application/yaml",
			deploymentYAML("  replicas: 2\n  replicas: 3\n", "  name: new\n  labels: {a: b}\n  labels: {c: d}\n")},
		{"YAML of one line", http.MethodPost, deployments, "application/yaml",
			deploymentBody("new", `"replicas":2,"replicas":3,"unknown":1,`)},
		{"lines of JSON as YAML", http.MethodPost, deployments, "application/yaml",
			"{\n" + strings.Replace(deploymentBody("new", "\"replicas\":2,\n\"replicas\":\n3,"), "{", "", 1)},
		{"update", http.MethodPut, deployments + "/one", "application/json",
			deploymentBody("one", `"replicas":2,"replicas":3,"unknown":1,`)},
		{"update in YAML", http.MethodPut, deployments + "/one", "application/yaml",
			strings.ReplaceAll(deploymentYAML("  replicas: 2\n\n  replicas: 3\n", "  name: new\n"), "new", "one")},
		{"apply", http.MethodPatch, deployments + "/one", applyPatch,
			strings.ReplaceAll(deploymentYAML("  replicas: 2\n\n  replicas: 3\n", "  name: one\n"), "new", "one")},
		{"apply to a new one", http.MethodPatch, deployments + "/new", applyPatch,
			deploymentYAML("  replicas: 2\n\n  replicas: 3\n", "")},
		{"apply JSON", http.MethodPatch, deployments + "/one", applyPatch,
			deploymentBody("one", `"replicas":2,"replicas":3,`)},
		{"apply what is unknown", http.MethodPatch, deployments + "/one", applyPatch,
			deploymentBody("one", `"unknown":3,`)},
		{"merge patch", http.MethodPatch, deployments + "/one", mergePatch,
			`{"metadata":{"labels":{"a":"b"},"labels":{"c":"d"}},"spec":{"replicas":2,"replicas":3,"unknown":1}}`},
		{"merge patch of names", http.MethodPatch, deployments + "/one", mergePatch,
			`{"metadata":{"name":"x","name":"one"}}`},
		{"strategic merge patch", http.MethodPatch, deployments + "/one", strategicPatch,
			`{"metadata":{"labels":{"a":"b"},"labels":{"c":"d"}},"spec":{"replicas":2,"replicas":3,"unknown":1}}`},
		{"JSON patch", http.MethodPatch, deployments + "/one", jsonPatch,
			`[{"op":"test","path":"/spec/replicas","path":"/spec/replicas","value":1,"foo":{"a":1}},{"op":"add",` +
				`"op":"replace","path":"/spec/replicas","value":4},{"op":"add","path":"/spec/unknown","value":1}]`},
		{"values of a JSON patch", http.MethodPatch, deployments + "/one", jsonPatch,
			`[{"op":"add","path":"/metadata/labels","value":{"k":"b","k":"c"}},{"path":"/metadata/annotations",` +
				`"op":"add","value":1,"value":{"a":"b"}}]`},
		{"selectors", http.MethodPost, policies, "application/json", `{"metadata":{"name":"new"},` +
			`"spec":{"podSelector":{},"ingress":[{"from":[{"namespaceSelector":{"matchLabels":{"a":"b","c":"x"}},` +
			`"namespaceSelector":{"matchLabels":{"c":"d"},"matchExpressions":[]}}]}]}}`},
		{"labels of selectors", http.MethodPost, policies, "application/json",
			`{"metadata":{"name":"new"},"spec":{"podSelector":{},` +
				`"ingress":[{"from":[{"namespaceSelector":{"matchLabels":{"a":"b"},"matchLabels":{"c":"d"}}}]}]}}`},
		{"selectors in YAML", http.MethodPost, policies, "application/yaml", "metadata: {name: new}\nspec:\n" +
			"  podSelector: {}\n  ingress:\n  - from:\n    - namespaceSelector: {matchLabels: {a: b}}\n" +
			"      namespaceSelector:\n        matchLabels: {c: d}\n        matchLabels: {e: f}\n"},
		{"selectors in a merge patch", http.MethodPatch, policies + "/one", mergePatch, `{"spec":{"ingress":[{` +
			`"from":[{"namespaceSelector":{"matchLabels":{"a":"b"},"matchLabels":{"c":"d"}}}]}]}}`},
		{"cluster-scoped", http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterroles", "application/json",
			`{"metadata":{"name":"old","name":"new"},"rules":[],"rules":[],"unknown":1}`},
		{"custom resource", http.MethodPost, foos, "application/json",
			`{"apiVersion":"` + group + `/v1","kind":"Foo","metadata":{"name":"x","name":"new","labels":{"a":"b"},` +
				`"labels":{"c":"d"},"unknown":1},"spec":{"size":1,"size":2,"unknown":1}}`},
		{"custom resource in YAML", http.MethodPost, foos, "application/yaml",
			fooHead + "metadata:\n  name: new\nspec:\n  size: 1\n\n  size: 2\n  unknown: 1\n"},
		{"update of a custom resource", http.MethodPut, foos + "/one", "application/json",
			`{"apiVersion":"` + group + `/v1","kind":"Foo","metadata":{"name":"one","resourceVersion":"VERSION"},` +
				`"spec":{"size":1,"size":2,"unknown":1}}`},
		{"update of a custom resource in YAML", http.MethodPut, foos + "/one", "application/yaml",
			fooHead + "metadata:\n  name: one\n  resourceVersion: \"VERSION\"\nspec:\n  size: 1\n\n  size: 2\n"},
		{"apply of a custom resource", http.MethodPatch, foos + "/one", applyPatch,
			fooHead + "metadata:\n  name: one\nspec:\n  size: 1\n\n  size: 2\n"},
		{"merge patch of a custom resource", http.MethodPatch, foos + "/one", mergePatch,
			`{"spec":{"size":1,"size":2,"unknown":1}}`},
		{"JSON patch of a custom resource", http.MethodPatch, foos + "/one", jsonPatch,
			`[{"op":"replace","path":"/spec/size","path":"/spec/size","value":4,"foo":1}]`},
		{"strategic merge patch of a custom resource", http.MethodPatch, foos + "/one", strategicPatch,
			`{"spec":{"size":1,"size":2}}`},
	}
	for _, validation := range []string{"", "Strict", "Warn", "Ignore"} {
		strict := 0
		for _, c := range cases {
			query := "?dryRun=All&fieldManager=one"
			if validation != "" {
				query += "&fieldValidation=" + validation
			}
			if c.media == applyPatch {
				query += "&force=true"
			}
			ask := func(cfg *rest.Config) reply {
				t.Helper()
				body := c.body
				if strings.Contains(body, "VERSION") {
					_, text := get(t, cfg, c.path)
					var has struct {
						Metadata struct{ ResourceVersion string }
					}
					if err := json.Unmarshal([]byte(text), &has); err != nil {
						t.Fatal(err)
					}
					body = strings.Replace(body, "VERSION", has.Metadata.ResourceVersion, 1)
				}
				return send(t, cfg, c.method, c.path+query, c.media, body)
			}
			want, got := ask(p.Admin), ask(a.config)
			wantCode, wantWarnings, wantBody := comparable(t, want)
			code, warnings, body := comparable(t, got)
			if code != wantCode || !reflect.DeepEqual(warnings, wantWarnings) || !reflect.DeepEqual(body, wantBody) {
				t.Errorf("%s, fieldValidation %q:\n got %d %q\n     %v\nwant %d %q\n     %v", c.name, validation, code,
					warnings, body, wantCode, wantWarnings, wantBody)
			}
			if code == http.StatusBadRequest || code == http.StatusUnprocessableEntity {
				strict++
			}
		}
		if validation == "Strict" && strict < len(cases)-5 {
			t.Errorf("only %d are refused: the test does not test", strict)
		}
	}
}

// deploymentBody is a Deployment with more in its spec.
func deploymentBody(name, more string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"` + name + `"},"spec":{` + more +
		`"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},` +
		`"spec":{"containers":[{"name":"c","image":"x"}]}}}}`
}

// deploymentYAML is one with other metadata.
func deploymentYAML(more, metadata string) string {
	if metadata == "" {
		metadata = "  name: new\n"
	}
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n" + metadata + "  # a comment\nspec:\n" + more +
		"  selector: {matchLabels: {app: x}}\n  template:\n    metadata:\n      labels:\n        app: x\n" +
		"        app: x\n    spec:\n      containers:\n      - name: c\n        image: x\n"
}
