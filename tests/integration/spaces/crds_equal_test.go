package spaces_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/tests/nstest"
)

// equalGroup is defined equally by several spaces.
const equalGroup = "equal.example.com"

// equalDefinition has something of all that upstream makes of a schema.
func equalDefinition() *apiextensionsv1.CustomResourceDefinition {
	return definition(equalGroup, withScale, func(crd *apiextensionsv1.CustomResourceDefinition) {
		v := &crd.Spec.Versions[0]
		v.AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{
			{Name: "Size", Type: "integer", JSONPath: ".spec.size"}}
		v.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.mode"}}
		v.Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"status": {Type: "object", XPreserveUnknownFields: new(true)},
				"spec": {
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"size":     {Type: "integer", Default: &apiextensionsv1.JSON{Raw: []byte("3")}},
						"replicas": {Type: "integer"},
						"mode": {Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"x"`)},
							{Raw: []byte(`"y"`)}}},
						"ports": {Type: "array", XListType: new("map"), XListMapKeys: []string{"name"},
							Items: &apiextensionsv1.JSONSchemaPropsOrArray{
								Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Required: []string{"name"},
									Properties: map[string]apiextensionsv1.JSONSchemaProps{
										"name": {Type: "string"}, "port": {Type: "integer"}}}}},
					},
					XValidations: apiextensionsv1.ValidationRules{
						{Rule: "!has(self.size) || self.size < 9", Message: "too large"},
						{Rule: "!has(oldSelf.mode) || self.mode == oldSelf.mode", Message: "it stays"},
					},
				},
			}}
		old := v.DeepCopy()
		old.Name, old.Storage, old.Deprecated = "v2", false, true
		crd.Spec.Versions = append(crd.Spec.Versions, *old)
	})
}

// TestEqualDefinitions: tenants whose definitions are equal are answered by one handler, as
// upstream's server answers, each about its own objects; what one of them changes is
// changed for it alone.
func TestEqualDefinitions(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	system, a, b := p.as(t, "system", p.Admin), p.bareTenant(t, "a"), p.bareTenant(t, "b")
	spaces := []*space{system, a, b}
	var gvr schema.GroupVersionResource
	for _, s := range spaces {
		gvr = s.define(t, equalDefinition())
	}
	sameAnswers(t, spaces)
	watches := map[*space]watch.Interface{}
	for _, s := range []*space{a, b} {
		s.makes(t, gvr, "default", foo(gvr, "of-"+s.name, nil))
		watches[s] = s.watching(t, gvr)
	}
	for _, s := range []*space{a, b} {
		s.has(t, gvr, "of-"+s.name+" one")
	}

	// Another schema of one tenant.
	const change = `{"op":"replace","path":"/spec/versions/%d/schema/openAPIV3Schema/properties/spec/` +
		`properties/size/default","value":5}`
	both := fmt.Appendf(nil, "["+change+","+change+"]", 0, 1)
	if _, err := a.definitions(t).Patch(t.Context(), "foos."+equalGroup, types.JSONPatchType, both,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	size := func(s *space) string {
		made, err := s.in(gvr, "default").Create(t.Context(), foo(gvr, "tried", map[string]any{}),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err.Error()
		}
		return field(made, "spec", "size")
	}
	eventually(t, "the changed default", func(context.Context) (bool, error) { return size(a) == "5", nil })
	eventually(t, "the watch of the changed resource to end", func(ctx context.Context) (bool, error) {
		select {
		case _, open := <-watches[a].ResultChan():
			return !open, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	})
	if got := size(b); got != "3" {
		t.Errorf("the default of the other tenant is %s", got)
	}

	// A definition that goes takes its tenant's objects.
	if err := a.definitions(t).Delete(t.Context(), "foos."+equalGroup, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the definition to go", func(ctx context.Context) (bool, error) {
		left, err := a.definitions(t).List(ctx, metav1.ListOptions{})
		return err == nil && len(left.Items) == 0, err
	})
	if left := p.keys(t, "/registry/"+equalGroup+"/foos/a/"); len(left) > 0 {
		t.Errorf("left in etcd: %v", left)
	}
	b.has(t, gvr, "of-b one")
	b.makes(t, gvr, "default", foo(gvr, "later", nil))
	eventually(t, "the watch to tell", func(ctx context.Context) (bool, error) {
		select {
		case event, open := <-watches[b].ResultChan():
			if !open {
				return false, errors.New("the watch of a tenant ended whose definition is the same")
			}
			o, err := metadataOf(event)
			return err == nil && o == "later", err
		case <-ctx.Done():
			return false, ctx.Err()
		}
	})
	// It is the same again.
	a.define(t, equalDefinition())
	a.has(t, gvr, "")
	a.makes(t, gvr, "default", foo(gvr, "again", nil))
	a.has(t, gvr, "again")
	b.has(t, gvr, "later of-b one")
}

func metadataOf(event watch.Event) (string, error) {
	o, ok := event.Object.(metav1.Object)
	if !ok {
		return "", fmt.Errorf("an event with a %T", event.Object)
	}
	return o.GetName(), nil
}

// watching begins to watch what a space has from now on.
func (s *space) watching(t *testing.T, gvr schema.GroupVersionResource) watch.Interface {
	t.Helper()
	list, err := s.dynamic.Resource(gvr).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.dynamic.Resource(gvr).Watch(t.Context(),
		metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// has checks which custom resources a space has.
func (s *space) has(t *testing.T, gvr schema.GroupVersionResource, want string) {
	t.Helper()
	list, err := s.dynamic.Resource(gvr).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.GetName())
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s has %q, want %q", s.name, got, want)
	}
}

// sameAnswers sends the same requests to all spaces, in turns.
func sameAnswers(t *testing.T, spaces []*space) {
	t.Helper()
	const (
		merge = "Content-Type: application/merge-patch+json"
		apply = "Content-Type: application/apply-patch+yaml"
		table = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"
	)
	object := func(version, name, spec string) string {
		return `{"apiVersion":"` + equalGroup + `/` + version + `","kind":"Foo","metadata":{"name":"` + name +
			`"},"spec":` + spec + `}`
	}
	for _, c := range []struct {
		method, path, body string
		headers            []string
	}{
		{"POST", "", object("v1", "one", `{"replicas":1}`), nil},
		{"POST", "", object("v1", "one", `{}`), nil},
		{"POST", "", object("v1", "large", `{"size":10}`), nil},
		{"POST", "", object("v1", "wrong", `{"size":"x"}`), nil},
		{"POST", "", object("v1", "wrong", `{"mode":"z"}`), nil},
		{"POST", "", object("v2", "other-version", `{}`), nil},
		{"POST", "?fieldValidation=Strict", object("v1", "unknown", `{"nonsense":1}`), nil},
		{"POST", "", object("v1", "two", `{"nonsense":1,"mode":"x"}`), nil},
		{"PATCH", "/two", `{"spec":{"mode":"y"}}`, []string{merge}},
		{"PATCH", "/two?fieldManager=a", object("v1", "two", `{"ports":[{"name":"a","port":1}]}`), []string{apply}},
		{"PATCH", "/two?fieldManager=b", object("v1", "two", `{"ports":[{"name":"b"}]}`), []string{apply}},
		{"PATCH", "/two?fieldManager=b", object("v1", "two", `{"ports":[{"name":"a","port":2}]}`), []string{apply}},
		{"GET", "", "", nil},
		{"GET", "?fieldSelector=spec.mode%3Dx", "", nil},
		{"GET", "?labelSelector=a%3Db", "", nil},
		{"GET", "", "", []string{table}},
		{"GET", "/two", "", []string{table}},
		{"GET", "/two/scale", "", nil},
		{"PATCH", "/two/scale", `{"spec":{"replicas":4}}`, []string{merge}},
		{"PATCH", "/two/status", `{"spec":{"replicas":9},"status":{"replicas":4}}`, []string{merge}},
		{"GET", "/two", "", nil},
		{"GET", "/none", "", nil},
		{"GET", "/two/nothing", "", nil},
		{"PUT", "/two", object("v1", "two", `{"size":4}`), nil},
		{"DELETE", "/two?dryRun=All", "", nil},
		{"DELETE", "/two", "", nil},
		{"GET", "/two", "", nil},
		{"DELETE", "?labelSelector=a%3Db", "", nil},
		{"GET", "?limit=1", "", nil},
	} {
		for _, version := range []string{"v1", "v2", "v3"} {
			if version != "v1" && c.method != "GET" {
				continue
			}
			path := "/apis/" + equalGroup + "/" + version + "/namespaces/default/foos" + c.path
			var want string
			for i, s := range spaces {
				code, answer := do(t, s.config, c.method, path, c.body, c.headers)
				got := fmt.Sprint(code, " ", impersonal(t, answer))
				if i == 0 {
					want = got
				} else if got != want {
					t.Errorf("%s %s %s:\n%s is answered %s\n%s %s", c.method, path, c.body, s.name, got,
						spaces[0].name, want)
				}
			}
		}
	}
}

// impersonal is an answer without what differs from space to space.
func impersonal(t *testing.T, answer string) string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(answer), &value); err != nil {
		return answer
	}
	var strip func(v any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range []string{"uid", "resourceVersion", "creationTimestamp", "selfLink", "tenant", "time",
				"continue"} {
				delete(v, key)
			}
			for _, of := range v {
				strip(of)
			}
		case []any:
			for _, of := range v {
				strip(of)
			}
		}
	}
	strip(value)
	if reflect.ValueOf(value).Kind() != reflect.Map {
		return answer
	}
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
