package spaces_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/spec3"

	"github.com/a4s-io/a4s/tests/nstest"
)

// TestTenantIsDeclared: what the API server sends agrees with the schemas that it
// serves, in every space and both versions of OpenAPI, for those who apply and
// merge by schemas.
func TestTenantIsDeclared(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a := p.tenant(t, "a")
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	sized := specified(map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer"}})
	ofTenant := a.define(t, definition("declared.example.com", sized))
	ofSystem := p.as(t, "system", p.Admin).define(t, definition("system.example.com", sized))
	inSystem := rest.CopyConfig(p.Admin)
	inSystem.Host += "/tenants/system"
	ofCluster := rest.CopyConfig(p.Admin)
	ofCluster.Host += "/tenants/a"
	for _, c := range []struct {
		name, tenant string // the tenant that the objects say
		config       *rest.Config
		custom       schema.GroupVersionResource
	}{
		{"a tenant", "a", a.config, ofTenant},
		{"a tenant, for the system", "a", ofCluster, ofTenant},
		{"the system", "system", inSystem, ofSystem},
		{"the system on short paths", "", p.Admin, ofSystem},
	} {
		t.Run(c.name, func(t *testing.T) {
			dc, err := discovery.NewDiscoveryClientForConfig(c.config)
			if err != nil {
				t.Fatal(err)
			}
			objects, err := dynamic.NewForConfig(c.config)
			if err != nil {
				t.Fatal(err)
			}
			for _, gvr := range []schema.GroupVersionResource{maps, c.custom} {
				object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
					"data": map[string]any{"k": "v"}}}
				if gvr != maps {
					object = foo(gvr, "", map[string]any{"size": int64(1)})
				}
				object.SetName("declared")
				object.SetNamespace("default")
				object.SetAnnotations(map[string]string{"applied": "yes"})
				if c.tenant != "" {
					if err := unstructured.SetNestedField(object.Object, c.tenant, "metadata", "tenant"); err != nil {
						t.Fatal(err)
					}
				}
				body, err := json.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				force := true
				got, err := objects.Resource(gvr).Namespace("default").Patch(t.Context(), object.GetName(),
					types.ApplyPatchType, body,
					metav1.PatchOptions{FieldManager: "applier", Force: &force, FieldValidation: "Strict"})
				if err != nil {
					t.Fatal(err)
				}
				// "" then
				if says, _, _ := unstructured.NestedString(got.Object, "metadata", //nolint:errcheck
					"tenant"); says != c.tenant {
					t.Fatalf("the object is of %q", says)
				}
				for _, entry := range got.GetManagedFields() {
					if fields := entry.FieldsV1.String(); strings.Contains(fields, "f:tenant") ||
						strings.Contains(fields, "f:selfLink") {
						t.Errorf("somebody has the field: %s", fields)
					}
				}
				root := "/api/"
				if gvr.Group != "" {
					root = "/apis/"
				}
				// Definitions learn of a moment later.
				for _, path := range []string{"/openapi/v2", "/openapi/v3" + root + gvr.GroupVersion().String()} {
					eventually(t, path, func(context.Context) (bool, error) {
						code, text := get(t, c.config, path)
						return code == http.StatusOK && strings.Contains(text, `"`+object.GetKind()+`"`), nil
					})
				}
				extractor, err := metaac.NewUnstructuredExtractor(dc)
				if err != nil {
					t.Fatal(err)
				}
				applied, err := extractor.Extract(got, "applier")
				if err != nil || applied.GetAnnotations()["applied"] != "yes" {
					t.Errorf("what was applied of %s by version 2: %v, %v", gvr, applied, err)
				}
				code, text := get(t, c.config, "/openapi/v3"+root+gvr.GroupVersion().String())
				var doc spec3.OpenAPI
				if err := json.Unmarshal([]byte(text), &doc); err != nil || code != http.StatusOK {
					t.Fatalf("%d, %v", code, err)
				}
				schemas, err := managedfields.NewTypeConverter(doc.Components.Schemas, false)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := schemas.ObjectToTyped(got); err != nil {
					t.Errorf("%s by version 3: %v", gvr, err)
				}
				strange := got.DeepCopy()
				if err := unstructured.SetNestedField(strange.Object, "x", "metadata", "stranger"); err != nil {
					t.Fatal(err)
				}
				if _, err := schemas.ObjectToTyped(strange); err == nil ||
					!strings.Contains(err.Error(), "field not declared in schema") {
					t.Errorf("the schema of %s declares everything: %v", gvr, err)
				}
			}
		})
	}
}
