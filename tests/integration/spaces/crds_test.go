package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/a4s-io/a4s/tests/nstest"
)

// TestDefinitionsOfTenants defines custom resources in two tenants at the same
// time: the same group, resource and kind, but not the same otherwise. Every
// case has a group of its own.
func TestDefinitionsOfTenants(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	p.shared(t)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	var running sync.WaitGroup
	// What is the same in each of the two, at the same time.
	for _, c := range []struct {
		name string // of the case and of its namespace
		run  func(t *testing.T, p *plane, s *space, namespace, group string)
	}{
		{"subresources", testCustomSubresources},
		{"patches", testCustomPatches},
		{"lists", testCustomLists},
		{"owners", testCustomOwners},
		{"terminating", testCustomNamespace},
		{"quota", testCustomQuota},
		{"scaling", testCustomScaling},
		{"budget", testCustomBudget},
		{"rights", testCustomRights},
		{"conversion", testCustomConversion},
		{"status", testDefinitionStatus},
	} {
		for _, s := range []*space{a, b} {
			running.Go(func() {
				t.Run(c.name+" in "+s.name, func(t *testing.T) {
					s.namespace(t, c.name, nil)
					c.run(t, p, s, c.name, c.name+".example.com")
				})
			})
		}
	}
	// What is different in the two.
	for _, c := range []struct {
		name string
		run  func(t *testing.T, p *plane, a, b *space, group string)
	}{
		{"schemas", testDefinedTwice},
		{"scopes", testTwoScopes},
		{"forced", testForcedDefinition},
		{"deletion", testDefinitionDeletion},
		{"discovery", testCustomDiscovery},
		{"watches", testCustomWatches},
		{"composite", testCompositeDefinitions},
		{"typechecks", testTypeChecks},
	} {
		running.Go(func() {
			t.Run(c.name, func(t *testing.T) { c.run(t, p, a, b, c.name+".example.com") })
		})
	}
	running.Wait()
	t.Run("deletion of the tenant", func(t *testing.T) { testCustomsOfDeletedTenant(t, p, a) })
}

// definition is one of foos in a group, namespaced, of version v1 that takes
// everything.
func definition(
	group string, change ...func(*apiextensionsv1.CustomResourceDefinition),
) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "foos." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "foos", Singular: "foo", Kind: "Foo",
				ListKind: "FooList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
						XPreserveUnknownFields: new(true)},
				},
			}},
		},
	}
	for _, f := range change {
		f(crd)
	}
	return crd
}

// named gives the resource other names.
func named(plural, kind string) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Name = plural + "." + crd.Spec.Group
		crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind),
			Kind: kind, ListKind: kind + "List"}
	}
}

// clusterWide makes it cluster-scoped.
func clusterWide(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Spec.Scope = apiextensionsv1.ClusterScoped
}

// withScale adds the subresources.
func withScale(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{
		Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
		Scale: &apiextensionsv1.CustomResourceSubresourceScale{
			SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas",
			LabelSelectorPath: new(".status.selector"),
		},
	}
}

// specified gives the spec a schema, and drops what is not in it.
func specified(
	properties map[string]apiextensionsv1.JSONSchemaProps, rules ...apiextensionsv1.ValidationRule,
) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"spec": {Type: "object", Properties: properties, XValidations: rules},
			}}
	}
}

func (s *space) definitions(t *testing.T) crdclient.CustomResourceDefinitionInterface {
	t.Helper()
	client, err := crdclient.NewForConfig(s.config)
	if err != nil {
		t.Fatal(err)
	}
	return client.CustomResourceDefinitions()
}

// define makes a CRD and waits until it serves; it returns its storage
// version's resource.
func (s *space) define(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) schema.GroupVersionResource {
	t.Helper()
	made, err := s.definitions(t).Create(t.Context(), crd, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("defining %s in %s: %v", crd.Name, s.name, err)
	}
	if made.Name != crd.Name {
		t.Errorf("the definition %s of %s is called %s", crd.Name, s.name, made.Name)
	}
	gvr := schema.GroupVersionResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			gvr.Version = v.Name
		}
	}
	s.serves(t, gvr)
	return gvr
}

// serves waits until a custom resource can be listed.
func (s *space) serves(t *testing.T, gvr schema.GroupVersionResource) {
	t.Helper()
	var last error
	defer func() {
		if t.Failed() {
			t.Logf("%s of %s: %v", gvr, s.name, last)
		}
	}()
	eventually(t, gvr.String()+" to be served in "+s.name, func(ctx context.Context) (bool, error) {
		_, err := s.dynamic.Resource(gvr).List(ctx, metav1.ListOptions{})
		if ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
}

// foo is a custom resource with a spec.
func foo(gvr schema.GroupVersionResource, name string, spec map[string]any) *unstructured.Unstructured {
	kind := strings.ToUpper(gvr.Resource[:1]) + strings.TrimSuffix(gvr.Resource[1:], "s")
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gvr.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// makes creates a custom resource, "" is no namespace.
func (s *space) makes(
	t *testing.T, gvr schema.GroupVersionResource, namespace string, object *unstructured.Unstructured,
) *unstructured.Unstructured {
	t.Helper()
	made, err := s.in(gvr, namespace).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("%s %s in %s: %v", gvr.Resource, object.GetName(), s.name, err)
	}
	return made
}

func (s *space) in(gvr schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return s.dynamic.Resource(gvr)
	}
	return s.dynamic.Resource(gvr).Namespace(namespace)
}

// field is a field of an object as text, "<none>" if it is not there.
func field(object *unstructured.Unstructured, path ...string) string {
	value, found, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	if !found || err != nil {
		return "<none>"
	}
	return fmt.Sprint(value)
}

// composite finds names that tenants must not see.
var composite = regexp.MustCompile(`[a-z0-9]\.[ab]\b|a4s\.io/tenant`)

// asks sends a request as the user of a space. Whatever comes back must be in
// native names.
func (s *space) asks(t *testing.T, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	code, answer := do(t, s.config, method, path, body, headers)
	if found := composite.FindString(answer); found != "" {
		t.Errorf("%s %s in %s: %q in %s", method, path, s.name, found, answer)
	}
	return code, answer
}

// wants is asks with what is wanted of the answer.
func (s *space) wants(t *testing.T, code int, method, path, body string, parts ...string) string {
	t.Helper()
	var headers []string
	if method == http.MethodPatch {
		headers = append(headers, "Content-Type: application/merge-patch+json")
	}
	got, answer := s.asks(t, method, path, body, headers...)
	if got != code {
		t.Errorf("%s %s in %s: %d, want %d: %s", method, path, s.name, got, code, answer)
	}
	for _, part := range parts {
		if !strings.Contains(answer, part) {
			t.Errorf("%s %s in %s: no %q in %s", method, path, s.name, part, answer)
		}
	}
	return answer
}
