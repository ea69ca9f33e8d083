package spaces_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/a4s-io/a4s/tests/nstest"
)

// TestSystemDefinitionsInSpaces: a CRD of the system serves every
// tenant if it is forced, with custom resources of their own, and is not there
// for them otherwise.
func TestSystemDefinitionsInSpaces(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	system, err := dynamic.NewForConfig(p.Admin)
	if err != nil {
		t.Fatal(err)
	}
	crds := system.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"})
	define := func(plural, kind, scope string, annotations map[string]any) schema.GroupVersionResource {
		gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: plural}
		_, err := crds.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": plural + ".example.com", "annotations": annotations},
			"spec": map[string]any{
				"group": "example.com", "scope": scope, "names": map[string]any{"plural": plural, "kind": kind},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
						"x-kubernetes-preserve-unknown-fields": true}}}},
			},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return gvr
	}
	forced := map[string]any{"arktos.futurewei.com/crd-sharing-policy": "forced"}
	namespaced := define("foos", "Foo", "Namespaced", forced)
	clusterScoped := define("bars", "Bar", "Cluster", forced)
	define("secretfoos", "SecretFoo", "Namespaced", nil)
	object := func(kind, owner string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": kind,
			"metadata": map[string]any{"name": "one"}, "spec": map[string]any{"owner": owner}}}
	}
	for _, s := range []*space{a, b} {
		eventually(t, "custom resources in "+s.name, func(ctx context.Context) (bool, error) {
			_, err := s.dynamic.Resource(namespaced).Namespace("default").Create(ctx, object("Foo", s.name),
				metav1.CreateOptions{})
			return err == nil, nil
		})
		eventually(t, "cluster-scoped custom resources in "+s.name, func(ctx context.Context) (bool, error) {
			_, err := s.dynamic.Resource(clusterScoped).Create(ctx, object("Bar", s.name), metav1.CreateOptions{})
			return err == nil, nil
		})
	}
	for _, key := range []string{"/registry/example.com/foos/a/default/one", "/registry/example.com/bars/a/one"} {
		if !slices.Contains(p.keys(t, "/example.com/"), key) {
			t.Errorf("no key %s in %v", key, p.keys(t, "/example.com/"))
		}
	}
	for gvr, scope := range map[schema.GroupVersionResource]string{namespaced: "", clusterScoped: ""} {
		list, err := a.dynamic.Resource(gvr).Namespace(scope).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "one" {
			t.Fatalf("%s: %v, %v", gvr.Resource, list, err)
		}
		if owner, _, _ := unstructured.NestedString(list.Items[0].Object, "spec", "owner"); owner != "a" {
			t.Errorf("%s of %s", gvr.Resource, owner)
		}
	}
	if _, err := a.dynamic.Resource(clusterScoped).Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if code, body := get(t, a.config,
		"/apis/example.com/v1/namespaces/default/secretfoos"); code != http.StatusNotFound {
		t.Errorf("a definition that is not shared: %d %s", code, body)
	}
	for _, path := range []string{"/apis/example.com/v1", "/openapi/v2", "/openapi/v3/apis/example.com/v1"} {
		body := ""
		// Documents are made a moment after a change.
		eventually(t, path+" to have the definition", func(context.Context) (bool, error) {
			var code int
			code, body = get(t, a.config, path)
			return code == http.StatusOK && strings.Contains(body, "foos"), nil
		})
		if strings.Contains(body, "secretfoos") {
			t.Errorf("%s has what it must not", path)
		}
	}
	// The space with its custom resources can be deleted.
	testDeletion(t, p, b)
}
