package spaces_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// testDefinedTwice: the same group and kind with another schema, validation,
// defaults, columns, fields to select by, names and versions.
func testDefinedTwice(t *testing.T, _ *plane, a, b *space, group string) {
	inA := a.define(t, definition(group, specified(map[string]apiextensionsv1.JSONSchemaProps{
		"size": {Type: "integer", Default: &apiextensionsv1.JSON{Raw: []byte("1")}},
		"kind": {Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"small"`)}}},
	}, apiextensionsv1.ValidationRule{Rule: "self.size <= 3", Message: "too big for A"}),
		func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Names.ShortNames, crd.Spec.Names.Categories = []string{"fa"}, []string{"ours", "all"}
			v := &crd.Spec.Versions[0]
			v.AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Size",
				Type:     "integer",
				JSONPath: ".spec.size"}}
			v.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.size"}}
		}))
	inB := b.define(t, definition(group, specified(map[string]apiextensionsv1.JSONSchemaProps{
		"size":   {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"huge"`)}},
		"colour": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"red"`)}},
	}, apiextensionsv1.ValidationRule{Rule: "self.colour != 'pink'", Message: "not for B"},
		apiextensionsv1.ValidationRule{Rule: "self.size == oldSelf.size", Message: "B stays as it is"}),
		func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Names.ShortNames, crd.Spec.Names.Categories = []string{"fb"}, []string{"theirs"}
			v := &crd.Spec.Versions[0]
			v.Name = "v2"
			v.AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Colour",
				Type:     "string",
				JSONPath: ".spec.colour"}}
			v.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.colour"}}
			old := v.DeepCopy()
			old.Name, old.Storage, old.Served = "v1", false, false
			crd.Spec.Versions = append(crd.Spec.Versions, *old)
		}))
	nonsense := map[string]any{"colour": "green", "nonsense": "x"}
	if made := a.makes(t, inA, "default", foo(inA, "one", nonsense)); field(made, "spec") != "map[size:1]" {
		t.Errorf("of a: %s", field(made, "spec"))
	}
	if made := b.makes(t, inB, "default", foo(inB, "one", map[string]any{"nonsense": "x"})); field(made,
		"spec") != "map[colour:red size:huge]" {
		t.Errorf("of b: %s", field(made, "spec"))
	}
	a1, b2 := "/apis/"+group+"/v1/namespaces/default/foos", "/apis/"+group+"/v2/namespaces/default/foos"
	body := func(version, spec string) string {
		return `{"apiVersion":"` + group + `/` + version +
			`","kind":"Foo","metadata":{"name":"tried"},"spec":` + spec + `}`
	}
	const no, yes = http.StatusUnprocessableEntity, http.StatusCreated
	for _, c := range []struct {
		s          *space
		path, body string
		code       int
		part       string
	}{
		{a, a1, body("v1", `{"size":4}`), no, "too big for A"},
		{a, a1, body("v1", `{"size":3,"kind":"small"}`), yes, ""},
		{a, a1, body("v1", `{"kind":"large"}`), no, `supported values: \"small\"`},
		{a, a1, body("v1", `{"size":"huge"}`), no, "must be of type integer"},
		{b, b2, body("v2", `{"size":4}`), no, "must be of type string"},
		{b, b2, body("v2", `{"colour":"pink"}`), no, "not for B"},
		{b, b2, body("v2", `{"size":"4","kind":"large"}`), yes, ""},
		{a, b2, body("v2", `{}`), http.StatusNotFound, ""},
		{b, a1, body("v1", `{}`), http.StatusNotFound, ""},
	} {
		answer := c.s.wants(t, c.code, http.MethodPost, c.path+"?dryRun=All", c.body, c.part)
		if foreign := map[*space]string{a: "for B", b: "for A"}[c.s]; strings.Contains(answer, foreign) {
			t.Errorf("the rule of another tenant: %s", answer)
		}
	}
	b.wants(t, no, http.MethodPatch, b2+"/one", `{"spec":{"size":"small"}}`, "B stays as it is")
	a.wants(t, http.StatusOK, http.MethodPatch, a1+"/one", `{"spec":{"size":2}}`)
	a.wants(t, http.StatusOK, http.MethodGet, a1+"?fieldSelector=spec.size%3D2", "", `"name":"one"`)
	a.wants(t, http.StatusBadRequest, http.MethodGet, a1+"?fieldSelector=spec.colour%3Dred", "")
	b.wants(t, http.StatusOK, http.MethodGet, b2+"?fieldSelector=spec.colour%3Dred", "", `"name":"one"`)
	b.wants(t, http.StatusBadRequest, http.MethodGet, b2+"?fieldSelector=spec.size%3D2", "")
	for s, want := range map[*space][]string{a: {"Name Size", "one 2"}, b: {"Name Colour", "one red"}} {
		path := map[*space]string{a: a1, b: b2}[s]
		_, answer := s.asks(t, http.MethodGet, path, "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io")
		var table metav1.Table
		if err := json.Unmarshal([]byte(answer), &table); err != nil || len(table.Rows) != 1 ||
			len(table.ColumnDefinitions) != 2 {
			t.Fatalf("table of %s: %s, %v", s.name, answer, err)
		}
		if got := table.ColumnDefinitions[0].Name + " " + table.ColumnDefinitions[1].Name; got != want[0] {
			t.Errorf("columns of %s: %s", s.name, got)
		}
		if cells, _ := json.Marshal(table.Rows[0].Cells); strings.Join(strings.Fields(strings.NewReplacer("[", "", "]",
			"", `"`, "", ",", " ").Replace(string(cells))), " ") != want[1] {
			t.Errorf("cells of %s: %s", s.name, cells)
		}
	}
	for s, want := range map[*space]string{a: "v1 fa all,ours", b: "v2 fb theirs"} {
		version, _, _ := strings.Cut(want, " ")
		var list *metav1.APIResourceList
		eventually(t, "the discovery of "+s.name, func(context.Context) (bool, error) {
			var err error
			list, err = s.client.Discovery().ServerResourcesForGroupVersion(group + "/" + version)
			return err == nil, ignoreNotFound(err)
		})
		if len(list.APIResources) != 1 {
			t.Fatalf("%s: %v", s.name, list)
		}
		r := list.APIResources[0]
		slices.Sort(r.Categories)
		if got := version + " " + strings.Join(r.ShortNames, ",") + " " +
			strings.Join(r.Categories, ","); got != want {
			t.Errorf("%s has %s", s.name, got)
		}
	}
}

// testTwoScopes: the same kind has namespaces in one tenant and none in the
// other, and the keys are those of the seed.
func testTwoScopes(t *testing.T, p *plane, a, b *space, group string) {
	inA, inB := a.define(t, definition(group)), b.define(t, definition(group, clusterWide))
	a.makes(t, inA, "default", foo(inA, "one", nil))
	a.makes(t, inA, "kube-system", foo(inA, "default", nil))
	b.makes(t, inB, "", foo(inB, "one", nil))
	b.makes(t, inB, "", foo(inB, "two.b.tenant", nil))
	want := []string{
		"/registry/apiextensions.k8s.io/customresourcedefinitions/a/foos." + group,
		"/registry/apiextensions.k8s.io/customresourcedefinitions/b/foos." + group,
		"/registry/" + group + "/foos/a/default/one",
		"/registry/" + group + "/foos/a/kube-system/default",
		"/registry/" + group + "/foos/b/one",
		"/registry/" + group + "/foos/b/two.b.tenant",
	}
	keys := slices.DeleteFunc(p.keys(t, group), func(key string) bool {
		return strings.Contains(key, "/apiregistration.k8s.io/")
	})
	if slices.Sort(keys); !slices.Equal(keys, want) {
		t.Errorf("keys: %v, want %v", keys, want)
	}
	for path, codes := range map[string][2]int{
		"/apis/" + group + "/v1/namespaces/default/foos/one": {http.StatusOK,
			http.StatusNotFound},
		"/apis/" + group +
			"/v1/foos/one": {http.StatusNotFound, http.StatusOK},
		"/apis/" + group +
			"/v1/foos": {http.StatusOK, http.StatusOK},
		"/apis/" + group +
			"/v1/foos/two.b.tenant": {http.StatusForbidden, http.StatusOK},
		"/apis/" + group + "/v1/tenants/a/namespaces/default/foos/one": {http.StatusOK,
			http.StatusForbidden},
		"/tenants/a/apis/" + group + "/v1/namespaces/default/foos/one": {http.StatusOK,
			http.StatusForbidden},
		"/apis/" + group +
			"/v1/tenants/b/foos/one": {http.StatusForbidden, http.StatusOK},
		"/tenants/b/apis/" + group +
			"/v1/foos": {http.StatusForbidden, http.StatusOK},
		"/apis/" + group + "/v1/tenants/system/namespaces/default/foos": {http.StatusForbidden,
			http.StatusForbidden},
		"/apis/" + group + "/v1/namespaces/default.a/foos/one": {http.StatusNotFound,
			http.StatusNotFound},
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {http.StatusOK,
			http.StatusOK},
		"/apis/apiextensions.k8s.io/v1/tenants/a/customresourcedefinitions/foos." + group: {http.StatusOK,
			http.StatusForbidden},
	} {
		for i, s := range []*space{a, b} {
			// No namespace has a dot, which can be said in more than one way.
			if code, answer := do(t, s.config, http.MethodGet, path, "", nil); code != codes[i] &&
				(codes[i] != http.StatusNotFound || code != http.StatusBadRequest) {
				t.Errorf("%s in %s: %d, want %d: %s", path, s.name, code, codes[i], answer)
			}
		}
	}
	// An administrator of the cluster gets to each as it is there.
	for _, path := range []string{"/apis/" + group + "/v1/tenants/a/namespaces/default/foos/one",
		"/apis/" + group + "/v1/tenants/b/foos/one", "/tenants/b/apis/" + group + "/v1/foos/one"} {
		if code, answer := get(t, p.Admin, path); code != http.StatusOK || !strings.Contains(answer, `"name":"one"`) ||
			!strings.Contains(answer, `"tenant":`) {
			t.Errorf("%s: %d %s", path, code, answer)
		}
	}
}

// testForcedDefinition: what tenants do to a CRD of a name that is
// forced is refused with a reason, and custom resources are the system's kind.
func testForcedDefinition(t *testing.T, p *plane, a, b *space, group string) {
	ctx := t.Context()
	name := "foos." + group
	// The tenant was first.
	gvr := b.define(t,
		definition(group, specified(map[string]apiextensionsv1.JSONSchemaProps{"own": {Type: "string"}})))
	b.makes(t, gvr, "default", foo(gvr, "before", map[string]any{"own": "yes", "shared": "yes"}))
	system := p.as(t, "system", p.Admin)
	if _, err := system.definitions(t).Create(ctx,
		definition(group, specified(map[string]apiextensionsv1.JSONSchemaProps{"shared": {Type: "string"}}),
			func(crd *apiextensionsv1.CustomResourceDefinition) {
				crd.Annotations = map[string]string{"arktos.futurewei.com/crd-sharing-policy": "forced"}
			}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*space{a, b} {
		eventually(t, "the definition to be forced on "+s.name, func(ctx context.Context) (bool, error) {
			made, err := s.in(gvr, "default").Create(ctx, foo(gvr, "tried", map[string]any{"shared": "yes"}),
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err == nil && field(made, "spec", "shared") == "yes", nil
		})
		s.makes(t, gvr, "default", foo(gvr, "one", map[string]any{"own": "yes", "shared": "yes"}))
	}
	own, err := json.Marshal(definition(group))
	if err != nil {
		t.Fatal(err)
	}
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	apply := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",` + string(own[1:])
	for _, s := range []*space{a, b} {
		for _, c := range []struct{ method, path, body, media string }{
			{http.MethodPost, crds, string(own), "application/json"},
			{http.MethodPut, crds + "/" + name, string(own), "application/json"},
			{http.MethodPatch, crds + "/" + name, `{"metadata":{"labels":{"x":"y"}}}`, "application/merge-patch+json"},
			{http.MethodPatch, crds + "/" + name, `[{"op":"remove","path":"/spec/versions"}]`,
				"application/json-patch+json"},
			{http.MethodPatch, crds + "/" + name + "?fieldManager=x&force=true", apply,
				"application/apply-patch+yaml"},
			{http.MethodDelete, crds + "/" + name, "", ""},
		} {
			var headers []string
			if c.media != "" {
				headers = append(headers, "Content-Type: "+c.media)
			}
			code, answer := s.asks(t, c.method, c.path, c.body, headers...)
			if code != http.StatusForbidden && code != http.StatusConflict || !strings.Contains(answer, name) {
				t.Errorf("%s %s (%s) in %s: %d %s", c.method, c.path, c.media, s.name, code, answer)
			}
		}
	}
	// What was made by the own CRD is there, and comes back with it.
	if old, err := b.in(gvr, "default").Get(ctx, "before", metav1.GetOptions{}); err != nil ||
		field(old, "spec", "own") != "<none>" {
		t.Errorf("seen by the forced definition: %v, %v", old, err)
	}
	if err := system.definitions(t).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the own definition to be back", func(ctx context.Context) (bool, error) {
		made, err := b.in(gvr, "default").Create(ctx, foo(gvr, "tried", map[string]any{"own": "yes"}),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && field(made, "spec", "own") == "yes", nil
	})
	if old, err := b.in(gvr, "default").Get(ctx, "before", metav1.GetOptions{}); err != nil ||
		field(old, "spec", "own") != "yes" {
		t.Errorf("what was made before: %v, %v", old, err)
	}
	eventually(t, "the definition not to serve any more", func(ctx context.Context) (bool, error) {
		_, err := a.in(gvr, "default").List(ctx, metav1.ListOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// testDefinitionDeletion: the objects of a CRD go with it, and only
// those of its tenant.
func testDefinitionDeletion(t *testing.T, p *plane, a, b *space, group string) {
	ctx := t.Context()
	gvr := a.define(t, definition(group))
	b.define(t, definition(group))
	bars := a.define(t, definition(group, named("bars", "Bar"), clusterWide))
	b.define(t, definition(group, named("bars", "Bar"), clusterWide))
	for _, s := range []*space{a, b} {
		for _, ns := range []string{"default", "kube-system"} {
			s.makes(t, gvr, ns, foo(gvr, "one", nil))
		}
		s.makes(t, bars, "", foo(bars, "one", nil))
	}
	w, err := a.in(gvr, "").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for _, name := range []string{"foos." + group, "bars." + group} {
		if err := a.definitions(t).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the definitions to go", func(ctx context.Context) (bool, error) {
		_, foos := a.definitions(t).Get(ctx, "foos."+group, metav1.GetOptions{})
		_, bars := a.definitions(t).Get(ctx, "bars."+group, metav1.GetOptions{})
		return apierrors.IsNotFound(foos) && apierrors.IsNotFound(bars), nil
	})
	eventually(t, "the resource not to be served", func(ctx context.Context) (bool, error) {
		_, err := a.in(gvr, "").List(ctx, metav1.ListOptions{})
		return apierrors.IsNotFound(err), nil
	})
	gone := 0
	for end := time.After(deadline); gone >= 0; {
		select {
		case event, open := <-w.ResultChan():
			if !open {
				gone = -1
			} else if event.Type == watch.Deleted {
				gone++
			}
		case <-end:
			t.Fatal("the watch of what is not defined any more goes on")
		}
	}
	if left := p.keys(t, "/registry/"+group+"/foos/a/"); len(left) > 0 {
		t.Errorf("left in etcd: %v", left)
	}
	if left := p.keys(t, "/registry/"+group+"/bars/a/"); len(left) > 0 {
		t.Errorf("left in etcd: %v", left)
	}
	if list, err := b.in(gvr, "").List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 2 {
		t.Errorf("of the other: %v, %v", list, err)
	}
	if _, err := b.in(bars, "").Get(ctx, "one", metav1.GetOptions{}); err != nil {
		t.Errorf("of the other: %v", err)
	}
	// Defined again, there is nothing.
	a.define(t, definition(group, clusterWide))
	if list, err := a.in(gvr, "").List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("defined again: %v, %v", list, err)
	}
}

// testCustomDiscovery: no document of a tenant reports the other.
func testCustomDiscovery(t *testing.T, _ *plane, a, b *space, group string) {
	described := func(word string) func(crd *apiextensionsv1.CustomResourceDefinition) {
		return func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = word
			crd.Spec.Names.ShortNames, crd.Spec.Names.Categories = []string{word}, []string{word}
		}
	}
	a.define(t, definition(group, specified(map[string]apiextensionsv1.JSONSchemaProps{"quagga": {Type: "string"}}),
		described("quagga")))
	b.define(t, definition(group, specified(map[string]apiextensionsv1.JSONSchemaProps{"okapi": {Type: "string"}}),
		described("okapi"), clusterWide, func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Name = "v7"
		}))
	b.define(t, definition("okapi."+group))
	a7 := "/apis/" + group + "/v7"
	for _, c := range []struct {
		s            *space
		own, foreign []string
		version      string
	}{
		{a, []string{"quagga"}, []string{"okapi", a7}, "v1"},
		{b, []string{"okapi"}, []string{"quagga", `"` + group + `/v1"`, `"apis/` + group + `/v1"`}, "v7"},
	} {
		for path, accept := range map[string]string{
			"/apis": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "/apis/": "",
			"/apis/" + group: "", "/apis/" + group + "/" + c.version: "",
			"/openapi/v2": "", "/openapi/v3": "", "/openapi/v3/apis/" + group + "/" + c.version: "",
			"/openapi/v2?": "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
		} {
			var headers []string
			if accept != "" {
				headers = append(headers, "Accept: "+accept)
			}
			var answer string
			// Documents are made a moment after a change.
			eventually(t, path+" to show "+group+" in "+c.s.name, func(context.Context) (bool, error) {
				var code int
				code, answer = do(t, c.s.config, http.MethodGet, strings.TrimSuffix(path, "?"), "", headers)
				return code == http.StatusOK && strings.Contains(answer, group), nil
			})
			for _, word := range c.foreign {
				if strings.Contains(answer, word) {
					t.Errorf("%s (%s) of %s has %q in it", path, accept, c.s.name, word)
				}
			}
			for _, word := range c.own {
				if (strings.HasPrefix(path, "/openapi/v2") || strings.HasPrefix(path, "/openapi/v3/") ||
					strings.HasSuffix(path, c.version)) && !strings.Contains(answer, word) {
					t.Errorf("%s (%s) of %s has no %q", path, accept, c.s.name, word)
				}
			}
		}
	}
	a.wants(t, http.StatusNotFound, http.MethodGet, "/apis/okapi."+group, "")
	a.wants(t, http.StatusNotFound, http.MethodGet, "/openapi/v3"+a7, "")
	a.wants(t, http.StatusNotFound, http.MethodGet, a7, "")
}

// testCustomWatches: who watches sees what their space has, and the system all
// of it.
func testCustomWatches(t *testing.T, p *plane, a, b *space, group string) {
	ctx := t.Context()
	gvr := a.define(t, definition(group))
	b.define(t, definition(group, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Names.ShortNames = []string{"other"}
	}))
	b.makes(t, gvr, "default", foo(gvr, "before", nil))
	opened := map[*space]watch.Interface{}
	for _, s := range []*space{a, b} {
		w, err := s.in(gvr, "").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		opened[s] = w
	}
	for _, s := range []*space{b, a} { // a's comes after b's
		s.makes(t, gvr, "default", foo(gvr, "of-"+s.name, nil))
		if _, err := s.in(gvr, "default").Patch(ctx, "of-"+s.name, types.MergePatchType, []byte(`{"spec":{"x":"y"}}`),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.in(gvr, "default").Delete(ctx, "of-"+s.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for s, want := range map[*space]string{a: "ADDED of-a, MODIFIED of-a, DELETED of-a",
		b: "ADDED before, ADDED of-b, MODIFIED of-b, DELETED of-b"} {
		var got []string
		for end := time.After(deadline); len(got) < strings.Count(want, ",")+1; {
			select {
			case event := <-opened[s].ResultChan():
				object, ok := event.Object.(*unstructured.Unstructured)
				if !ok || object.GetNamespace() != "default" || object.GetAPIVersion() != group+"/v1" {
					t.Fatalf("watch of %s: %v", s.name, event)
				}
				got = append(got, string(event.Type)+" "+object.GetName())
			case <-end:
				t.Fatalf("watch of %s: %v", s.name, got)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("watch of %s: %v", s.name, got)
		}
	}
	a.makes(t, gvr, "default", foo(gvr, "after", nil))
	var all metav1.PartialObjectMetadataList
	eventually(t, "the system to see what both have", func(context.Context) (bool, error) {
		code, answer := do(t, p.Admin, http.MethodGet, "/apis/"+group+"/v1/foos", "",
			[]string{"Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"})
		if code != http.StatusOK {
			return false, nil
		}
		return true, json.Unmarshal([]byte(answer), &all)
	})
	var names []string
	for _, item := range all.Items {
		names = append(names, item.Namespace+"/"+item.Name)
	}
	if slices.Sort(names); strings.Join(names, " ") != "default.a/after default.b/before" {
		t.Errorf("the system sees %v", names)
	}
}

// testCompositeDefinitions: names as they are inside are only names to tenants.
func testCompositeDefinitions(t *testing.T, p *plane, a, b *space, group string) {
	b.define(t, definition(group, clusterWide))
	bars := b.define(t, definition("b.tenant", named("bars", "Bar"), clusterWide))
	b.makes(t, bars, "", foo(bars, "one", nil))
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
	for _, name := range []string{"foos." + group, "foos." + group + ".b.tenant", "foos." + group + ".b",
		"bars.b.tenant", "bars.b.tenant.b.tenant", "..%2Fb%2Ffoos." + group} {
		for method, body := range map[string]string{http.MethodGet: "", http.MethodDelete: "",
			http.MethodPatch: `{"metadata":{"labels":{"x":"y"}}}`} {
			var headers []string
			if body != "" {
				headers = append(headers, "Content-Type: application/merge-patch+json")
			}
			if code, answer := do(t, a.config, method, crds+name, body, headers); code != http.StatusNotFound &&
				code != http.StatusBadRequest || strings.Contains(answer, `"spec"`) {
				t.Errorf("%s %s: %d %s", method, name, code, answer)
			}
		}
	}
	// A CRD of that name is one like others.
	same := a.define(t, definition("b.tenant", named("bars", "Bar"), clusterWide))
	a.makes(t, same, "", foo(same, "one.b.tenant", nil))
	for _, key := range []string{"/registry/apiextensions.k8s.io/customresourcedefinitions/a/bars.b.tenant",
		"/registry/b.tenant/bars/a/one.b.tenant", "/registry/b.tenant/bars/b/one"} {
		if !slices.Contains(p.keys(t, "b.tenant"), key) {
			t.Errorf("no key %s in %v", key, p.keys(t, "b.tenant"))
		}
	}
	if list, err := b.in(bars, "").List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 ||
		list.Items[0].GetName() != "one" {
		t.Errorf("of the other: %v, %v", list, err)
	}
	if err := a.in(same, "").Delete(t.Context(), "one", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("deleting that of the other: %v", err)
	}
	// In the system space such a name belongs to tenants.
	system := p.as(t, "system", p.Admin)
	if _, err := system.definitions(t).
		Create(t.Context(), definition("z.tenant"), metav1.CreateOptions{}); err == nil {
		t.Error("a definition of the system has the name of a tenant's")
	}
}
