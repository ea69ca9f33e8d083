package spaces_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crds "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/tests/nstest"
)

const documented = "docs.example.com"

// documentedDefinition uses all that shows in documents: several versions, one
// of them not served, subresources, names, defaults and selectable fields.
func documentedDefinition(
	plural, kind string, scope apiextensionsv1.ResourceScope, field string,
) *apiextensionsv1.CustomResourceDefinition {
	version := func(name string) apiextensionsv1.CustomResourceDefinitionVersion {
		yes := true
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Deprecated: name == "v1beta1",
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Description: kind + " of " + name,
				Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"spec": {Type: "object", Required: []string{field},
						Properties: map[string]apiextensionsv1.JSONSchemaProps{
							field: {Type: "string", Description: field + " of " + name,
								Enum: []apiextensionsv1.JSON{{Raw: []byte(`"x"`)}, {Raw: []byte(`"y"`)}}},
							"replicas": {Type: "integer", Format: "int32",
								Default: &apiextensionsv1.JSON{Raw: []byte("1")}},
							"anything": {XIntOrString: true},
							"open":     {Type: "object", XPreserveUnknownFields: &yes},
							"inner":    {Type: "object", XEmbeddedResource: true, XPreserveUnknownFields: &yes},
						}, XValidations: apiextensionsv1.ValidationRules{
							{Rule: "self.replicas < 10", Message: "too many"},
						}},
					"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"replicas": {Type: "integer", Nullable: true},
					}},
				},
			}},
		}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + documented},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: documented, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ShortNames: []string{plural[:3]},
				Categories: []string{"all", "docs"},
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1beta1"), version("v1"),
				version("v2alpha1"), version("v3")},
		},
	}
	v1, hidden := &crd.Spec.Versions[1], &crd.Spec.Versions[3]
	v1.Storage, hidden.Served = true, false
	v1.Subresources = &apiextensionsv1.CustomResourceSubresources{
		Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
		Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas",
			StatusReplicasPath: ".status.replicas"},
	}
	v1.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec." + field}}
	return crd
}

// TestDocumentsOfDefinitions: what a space says of its CRDs is what an
// API server of upstream says of the same ones, and of nobody else's.
func TestDocumentsOfDefinitions(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	define := func(cfg *rest.Config, crd *apiextensionsv1.CustomResourceDefinition) {
		t.Helper()
		client, err := crds.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.CustomResourceDefinitions().Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, crd.Name+" to be established", func(ctx context.Context) (bool, error) {
			crd, err := client.CustomResourceDefinitions().Get(ctx, crd.Name, metav1.GetOptions{})
			return err == nil && slices.ContainsFunc(crd.Status.Conditions,
				func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
					return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
				}), nil
		})
	}
	none := documentsOf(t, b.config, "")
	for _, cfg := range []*rest.Config{p.Admin, a.config} {
		define(cfg, documentedDefinition("widgets", "Widget", apiextensionsv1.NamespaceScoped, "color"))
		define(cfg, documentedDefinition("gadgets", "Gadget", apiextensionsv1.ClusterScoped, "color"))
	}
	t.Run("are those of upstream", func(t *testing.T) {
		// The system's documents are upstream's, which reports CRDs
		// some time after they are established.
		var d []string
		t.Cleanup(func() {
			if t.Failed() {
				t.Errorf("what differs is %v", d)
			}
		})
		eventually(t, "the documents to be the same", func(context.Context) (bool, error) {
			d = differences(documentsOf(t, p.Admin, "/tenants/system"), documentsOf(t, a.config, ""))
			return len(d) == 0, nil
		})
		if of := documentsOf(t, a.config, ""); len(of) < 12 ||
			!strings.Contains(of["/openapi/v2 models"], "color of v1") {
			t.Errorf("there is less to compare than there should be: %v", slices.Sorted(maps.Keys(of)))
		}
	})
	t.Run("are nobody else's", func(t *testing.T) {
		if d := differences(none, documentsOf(t, b.config, "")); len(d) > 0 {
			t.Errorf("definitions of another tenant changed %v", d)
		}
		for _, path := range []string{"/apis/%s", "/apis/%s/v1", "/openapi/v3/apis/%s/v1"} {
			code, body := get(t, b.config, strings.ReplaceAll(path, "%s", documented))
			noCode, noBody := get(t, b.config, strings.ReplaceAll(path, "%s", "nobody.example.com"))
			if code != http.StatusNotFound || noCode != code || body != noBody {
				t.Errorf("%s: %d %q, but of no group %d %q", path, code, body, noCode, noBody)
			}
		}
	})
	t.Run("tell apart what has one name", func(t *testing.T) {
		define(b.config, documentedDefinition("widgets", "Widget", apiextensionsv1.NamespaceScoped, "weight"))
		for s, fields := range map[*space][2]string{a: {"color of v1", "weight of v1"},
			b: {"weight of v1", "color of v1"}} {
			for _, path := range []string{"/openapi/v2", "/openapi/v3/apis/" + documented + "/v1"} {
				body := ""
				// Documents are made a moment after a change.
				eventually(t, path+" in "+s.name+" to have its own", func(context.Context) (bool, error) {
					var code int
					code, body = get(t, s.config, path)
					return code == http.StatusOK && strings.Contains(body, fields[0]), nil
				})
				if strings.Contains(body, fields[1]) {
					t.Errorf("%s in %s has the other's", path, s.name)
				}
			}
			// This is how kubectl explain reads.
			client, err := discovery.NewDiscoveryClientForConfig(s.config)
			if err != nil {
				t.Fatal(err)
			}
			doc, err := openapi3.NewRoot(client.OpenAPIV3()).
				GVSpec(schema.GroupVersion{Group: documented, Version: "v1"})
			if err != nil {
				t.Fatal(err)
			}
			field, _, _ := strings.Cut(fields[0], " ")
			if spec := doc.Components.Schemas["com.example.docs.v1.Widget"].Properties["spec"]; spec.Properties[field].
				Description != fields[0] {
				t.Errorf("explaining %s in %s: %+v", field, s.name, spec.Properties)
			}
		}
	})
	t.Run("follow the definitions", func(t *testing.T) {
		address := func() string {
			var index struct {
				Paths map[string]struct{ ServerRelativeURL string }
			}
			_, body := get(t, b.config, "/openapi/v3")
			if err := json.Unmarshal([]byte(body), &index); err != nil {
				t.Fatal(err)
			}
			return index.Paths["apis/"+documented+"/v1"].ServerRelativeURL
		}
		was := address()
		client, err := crds.NewForConfig(b.config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.CustomResourceDefinitions().Patch(t.Context(), "widgets."+documented,
			"application/json-patch+json",
			[]byte(`[{"op":"add","path":"/spec/versions/1/schema/openAPIV3Schema/properties/more",`+
				`"value":{"type":"string","description":"more of v1"}}]`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the change to be told", func(context.Context) (bool, error) {
			now := address()
			if now == was {
				return false, nil
			}
			code, body := get(t, b.config, now)
			return code == http.StatusOK && strings.Contains(body, "more of v1"), nil
		})
		if err := client.CustomResourceDefinitions().Delete(t.Context(), "widgets."+documented,
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		var d []string
		t.Cleanup(func() {
			if t.Failed() {
				t.Errorf("what differs is %v", d)
			}
		})
		eventually(t, "the documents to be as before", func(context.Context) (bool, error) {
			d = differences(none, documentsOf(t, b.config, ""))
			return len(d) == 0, nil
		})
	})
	t.Run("are known to controllers and to nobody else of the system", func(t *testing.T) {
		crd := documentedDefinition("sprockets", "Sprocket", apiextensionsv1.NamespaceScoped, "teeth")
		define(a.config, crd)
		collector := p.user(t, "system:kube-controller-manager", nil, nil)
		known := func(cfg *rest.Config, legacy bool) (bool, error) {
			client, err := discovery.NewDiscoveryClientForConfig(cfg)
			if err != nil {
				return false, err
			}
			client.UseLegacyDiscovery = legacy
			lists, err := client.ServerPreferredResources()
			return slices.ContainsFunc(lists, func(l *metav1.APIResourceList) bool {
				return l.GroupVersion == documented+"/v1" && slices.ContainsFunc(l.APIResources,
					func(r metav1.APIResource) bool { return r.Name == "sprockets" })
			}), err
		}
		for _, legacy := range []bool{false, true} {
			eventually(t, "the resource of a tenant", func(context.Context) (bool, error) {
				there, _ := known(collector, legacy)
				return there, nil
			})
			if there, err := known(p.Admin, legacy); there || err != nil {
				t.Errorf("an administrator of the cluster is told the resource of a tenant: %v", err)
			}
		}
		if _, body := get(t, p.Admin, "/tenants/system/apis/"+documented+"/v1"); strings.Contains(body, "sprockets") {
			t.Error("the system space has the resource of a tenant")
		}
	})
}

// hashes are in addresses of documents of version 3. They are the space's.
var hashes = regexp.MustCompile(`\?hash=[0-9A-F]+`)

// documentsOf are the parts of all documents that are about custom resources.
func documentsOf(t *testing.T, cfg *rest.Config, prefix string) map[string]string {
	t.Helper()
	out := map[string]string{}
	decode := func(path string, headers ...string) any {
		code, body := do(t, cfg, http.MethodGet, prefix+path, "", headers)
		if code != http.StatusOK {
			return nil
		}
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return v
	}
	keep := func(name string, v any) {
		if v == nil {
			return
		}
		b, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		out[name] = hashes.ReplaceAllString(strings.ReplaceAll(string(b), prefix+"/openapi", "/openapi"), "")
	}
	group := func(list any, items string, name func(map[string]any) any) any {
		for _, item := range list.(map[string]any)[items].([]any) {
			if name(item.(map[string]any)) == documented {
				return item
			}
		}
		return nil
	}
	list := decode("/apis", "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	keep("/apis v2", group(list, "items", func(g map[string]any) any {
		return g["metadata"].(map[string]any)["name"]
	}))
	keep("/apis", group(decode("/apis"), "groups", func(g map[string]any) any { return g["name"] }))
	keep("/apis/group", decode("/apis/"+documented))
	for _, version := range []string{"v1", "v1beta1", "v2alpha1", "v3"} {
		list := decode("/apis/" + documented + "/" + version)
		if list != nil { // upstream has them in no order
			slices.SortFunc(list.(map[string]any)["resources"].([]any), func(a, b any) int {
				return strings.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
			})
		}
		keep("/apis/group/"+version, list)
		keep("/openapi/v3/group/"+version, decode("/openapi/v3/apis/"+documented+"/"+version))
	}
	members := func(of any, about string) any {
		found := map[string]any{}
		for name, member := range of.(map[string]any) {
			if strings.Contains(name, about) {
				found[name] = member
			}
		}
		if len(found) == 0 {
			return nil
		}
		return found
	}
	keep("/openapi/v3", members(decode("/openapi/v3").(map[string]any)["paths"], documented))
	v2 := decode("/openapi/v2").(map[string]any)
	keep("/openapi/v2 paths", members(v2["paths"], documented))
	keep("/openapi/v2 models", members(v2["definitions"], "com.example.docs"))
	// What they refer to must be there, as upstream has it.
	for _, found := range references.FindAllStringSubmatch(out["/openapi/v2 paths"]+out["/openapi/v2 models"], -1) {
		of, _ := v2[found[1]].(map[string]any)
		if of[found[2]] == nil {
			t.Errorf("%s %s is not in the document", found[1], found[2])
		}
		keep("/openapi/v2 "+found[1]+"/"+found[2], of[found[2]])
	}
	return out
}

// references are those in a document of version 2.
var references = regexp.MustCompile(`"\$ref": "#/(definitions|parameters)/([^"]+)"`)

// differences are the names of the documents that are not the same.
func differences(a, b map[string]string) []string {
	var out []string
	for name := range a {
		if a[name] != b[name] {
			out = append(out, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
