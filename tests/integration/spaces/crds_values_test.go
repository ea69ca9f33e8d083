package spaces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func testCustomSubresources(t *testing.T, _ *plane, s *space, namespace, group string) {
	gvr := s.define(t, definition(group, withScale))
	foos := s.in(gvr, namespace)
	ctx := t.Context()
	object := foo(gvr, "one", map[string]any{"replicas": int64(1)})
	object.Object["status"] = map[string]any{"replicas": int64(7)}
	made := s.makes(t, gvr, namespace, object)
	if field(made, "status") != "<none>" || made.GetGeneration() != 1 {
		t.Errorf("made with status %s, generation %d", field(made, "status"), made.GetGeneration())
	}
	made.Object["status"] = map[string]any{"replicas": int64(1), "selector": "app=one"}
	made.Object["spec"] = map[string]any{"replicas": int64(9)}
	updated, err := foos.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	if err != nil || field(updated, "status", "replicas") != "1" || field(updated, "spec", "replicas") != "1" ||
		updated.GetGeneration() != 1 || updated.GetNamespace() != namespace {
		t.Fatalf("with a status: %v, %v", updated, err)
	}
	scale, err := foos.Get(ctx, "one", metav1.GetOptions{}, "scale")
	if err != nil {
		t.Fatal(err)
	}
	if scale.GetNamespace() != namespace || scale.GetName() != "one" || scale.GetKind() != "Scale" ||
		scale.GetUID() != made.GetUID() ||
		field(scale, "spec", "replicas") != "1" || field(scale, "status", "selector") != "app=one" {
		t.Errorf("scale: %v", scale)
	}
	scale.Object["spec"] = map[string]any{"replicas": int64(2)}
	if scale, err = foos.Update(ctx, scale, metav1.UpdateOptions{}, "scale"); err != nil ||
		field(scale, "spec", "replicas") != "2" || scale.GetNamespace() != namespace {
		t.Errorf("updated scale: %v, %v", scale, err)
	}
	if scale, err = foos.Patch(ctx, "one", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`),
		metav1.PatchOptions{}, "scale"); err != nil || field(scale, "spec", "replicas") != "3" {
		t.Errorf("patched scale: %v, %v", scale, err)
	}
	if updated, err = foos.Get(ctx, "one", metav1.GetOptions{}); err != nil ||
		field(updated, "spec", "replicas") != "3" || updated.GetGeneration() != 3 {
		t.Errorf("scaled: %v, %v", updated, err)
	}
	s.wants(t, http.StatusNotFound, http.MethodGet, "/apis/"+group+"/v1/namespaces/"+namespace+"/foos/one/log", "")
}

func testCustomPatches(t *testing.T, _ *plane, s *space, namespace, group string) {
	gvr := s.define(t, definition(group, specified(map[string]apiextensionsv1.JSONSchemaProps{
		"size": {Type: "integer"},
		"ports": {
			Type:         "array",
			XListType:    new("map"),
			XListMapKeys: []string{"name"},
			Items: &apiextensionsv1.JSONSchemaPropsOrArray{
				Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Required: []string{"name"},
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": {Type: "string"},
						"port": {Type: "integer"}}},
			},
		},
	})))
	s.makes(t, gvr, namespace, foo(gvr, "one", map[string]any{"size": int64(1)}))
	path := "/apis/" + group + "/v1/namespaces/" + namespace + "/foos"
	for _, c := range []struct {
		media, query, body string
		code               int
		want               string
	}{
		{"application/merge-patch+json", "", `{"spec":{"size":2},"metadata":{"labels":{"by":"merge"}}}`,
			http.StatusOK, `"by":"merge"`},
		{"application/merge-patch+json", "", `{"metadata":{"namespace":"` + namespace + `","tenant":"` + s.name +
			`"},"spec":{"size":3}}`, http.StatusOK, `"size":3`},
		{"application/merge-patch+json", "", `{"metadata":{"tenant":"nobody"}}`, http.StatusOK,
			`"tenant":"` + s.name + `"`},
		{"application/merge-patch+json", "", `{"spec":{"size":"x"}}`, http.StatusUnprocessableEntity,
			`must be of type integer`},
		{"application/merge-patch+json", "?fieldValidation=Strict", `{"spec":{"nonsense":1}}`,
			http.StatusUnprocessableEntity, `unknown field`},
		{"application/merge-patch+json", "?dryRun=All", `{"spec":{"size":99}}`, http.StatusOK, `"size":99`},
		{"application/json-patch+json", "", `[{"op":"test","path":"/metadata/namespace","value":"` + namespace +
			`"},{"op":"replace","path":"/spec/size","value":4}]`, http.StatusOK, `"size":4`},
		{"application/json-patch+json", "", `[{"op":"test","path":"/spec/size","value":3}]`,
			http.StatusUnprocessableEntity, ""},
		{"application/strategic-merge-patch+json", "", `{"spec":{"size":5}}`, http.StatusUnsupportedMediaType, ""},
		{"application/apply-patch+yaml", "?fieldManager=one", `{"apiVersion":"` + group +
			`/v1","kind":"Foo","metadata":{"name":"one"},"spec":{"ports":[{"name":"http","port":80}]}}`,
			http.StatusOK, `"port":80`},
		{"application/apply-patch+yaml", "?fieldManager=two",
			`{"apiVersion":"` + group + `/v1","kind":"Foo","metadata":{"name":"one","namespace":"` + namespace +
				`"},"spec":{"ports":[{"name":"dns","port":53}]}}`, http.StatusOK, `"port":80`},
		{"application/apply-patch+yaml", "?fieldManager=three", `{"apiVersion":"` + group +
			`/v1","kind":"Foo","metadata":{"name":"one"},"spec":{"ports":[{"name":"dns","port":54}]}}`,
			http.StatusConflict, `two`},
	} {
		code, answer := s.asks(t, http.MethodPatch, path+"/one"+c.query, c.body, "Content-Type: "+c.media)
		if code != c.code || !strings.Contains(answer, c.want) {
			t.Errorf("%s%s %s: %d, want %d and %q: %s", c.media, c.query, c.body, code, c.code, c.want, answer)
		}
	}
	code, answer := s.asks(t, http.MethodPost, path, "apiVersion: "+group+
		"/v1\nkind: Foo\nmetadata: {generateName: made-}\nspec: {size: 6}\n", "Content-Type: application/yaml")
	if code != http.StatusCreated || !strings.Contains(answer, `"name":"made-`) {
		t.Errorf("made from YAML: %d %s", code, answer)
	}
	for body, want := range map[string]int{
		`{"apiVersion":"` + group + `/v1","kind":"Bar",` +
			`"metadata":{"name":"two"}}`: http.StatusUnprocessableEntity,
		`{"apiVersion":"` + group +
			`/v2","kind":"Foo","metadata":{"name":"two"}}`: http.StatusBadRequest,
		`{"apiVersion":"` + group +
			`/v1","kind":"Foo","metadata":{"name":"two","namespace":"elsewhere"}}`: http.StatusBadRequest,
		`{"apiVersion":"` + group +
			`/v1","kind":"Foo","metadata":{"name":"two","tenant":7}}`: http.StatusBadRequest,
		`{"apiVersion":"` + group +
			`/v1","kind":"Foo","metadata":{"name":"Not A Name"}}`: http.StatusUnprocessableEntity,
		`{"apiVersion":"` + group +
			`/v1","kind":"Foo","metadata":{"name":"one"}}`: http.StatusConflict,
		`{"apiVersion":"` + group + `/v1","kind":"Foo","metadata":{"name":"two","tenant":"` + s.name +
			`"}}`: http.StatusCreated,
		`{"apiVersion":"` + group + `/v1","kind":"Foo","metadata":{"name":"three"},` +
			`"spec":{"ports":[{"x":1}]}}`: http.StatusUnprocessableEntity,
	} {
		s.wants(t, want, http.MethodPost, path, body)
	}
	s.wants(t, http.StatusNotFound, http.MethodPatch, path+"/none", `{}`, `foos.`+group+` \"none\" not found`)
}

func testCustomLists(t *testing.T, _ *plane, s *space, namespace, group string) {
	gvr := s.define(t, definition(group, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{
			{Name: "Colour", Type: "string", JSONPath: ".spec.colour"},
		}
	}))
	for i := range 7 {
		object := foo(gvr, fmt.Sprintf("foo-%d", i), map[string]any{"colour": fmt.Sprintf("colour-%d", i)})
		object.SetLabels(map[string]string{"odd": fmt.Sprint(i%2 == 1)})
		s.makes(t, gvr, namespace, object)
	}
	s.makes(t, gvr, "default", foo(gvr, "foo-0", nil))
	names := func(namespace string, o metav1.ListOptions) string {
		t.Helper()
		var out []string
		for {
			list, err := s.in(gvr, namespace).List(t.Context(), o)
			if err != nil {
				t.Errorf("%+v: %v", o, err)
				return ""
			}
			for _, item := range list.Items {
				out = append(out, item.GetNamespace()+"/"+item.GetName())
			}
			if o.Continue = list.GetContinue(); o.Continue == "" {
				return strings.Join(out, " ")
			}
		}
	}
	in := func(of string) string { return strings.ReplaceAll(" "+of, " ", " "+namespace+"/foo-")[1:] }
	for _, c := range []struct {
		namespace string
		options   metav1.ListOptions
		want      string
	}{
		{namespace, metav1.ListOptions{}, in("0 1 2 3 4 5 6")},
		{namespace, metav1.ListOptions{Limit: 2}, in("0 1 2 3 4 5 6")},
		{namespace, metav1.ListOptions{ResourceVersion: "0"}, in("0 1 2 3 4 5 6")},
		{namespace, metav1.ListOptions{LabelSelector: "odd=true"}, in("1 3 5")},
		{namespace, metav1.ListOptions{FieldSelector: "metadata.name=foo-3"}, in("3")},
		{"", metav1.ListOptions{FieldSelector: "metadata.namespace=default"}, "default/foo-0"},
		{"", metav1.ListOptions{FieldSelector: "metadata.name=foo-0"}, "default/foo-0 " + in("0")},
		{"", metav1.ListOptions{Limit: 3}, "default/foo-0 " + in("0 1 2 3 4 5 6")},
	} {
		got := names(c.namespace, c.options)
		if c.namespace == "" && namespace < "default" {
			t.Fatal("the order is that of the names")
		}
		if got != c.want {
			t.Errorf("%q %+v: %s, want %s", c.namespace, c.options, got, c.want)
		}
	}
	path := "/apis/" + group + "/v1/namespaces/" + namespace + "/foos"
	var table metav1.Table
	_, answer := s.asks(t, http.MethodGet, path+"?labelSelector=odd%3Dtrue", "",
		"Accept: application/json;as=Table;v=v1;g=meta.k8s.io")
	if err := json.Unmarshal([]byte(answer), &table); err != nil || len(table.Rows) != 3 ||
		len(table.ColumnDefinitions) != 2 || table.Rows[0].Cells[1] != "colour-1" {
		t.Errorf("table: %s, %v", answer, err)
	}
	var partial metav1.PartialObjectMetadataList
	_, answer = s.asks(t, http.MethodGet, path, "",
		"Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
	if err := json.Unmarshal([]byte(answer), &partial); err != nil || len(partial.Items) != 7 ||
		partial.Items[0].Namespace != namespace || strings.Contains(answer, "colour-") {
		t.Errorf("metadata: %s, %v", answer, err)
	}
	if err := s.in(gvr, namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "odd=true"}); err != nil {
		t.Error(err)
	}
	if got, want := names("", metav1.ListOptions{}), "default/foo-0 "+in("0 2 4 6"); got != want {
		t.Errorf("after a deletion: %s, want %s", got, want)
	}
}

// testDefinitionStatus: a CRD says of itself what one of a whole cluster
// says, in native names.
func testDefinitionStatus(t *testing.T, _ *plane, s *space, namespace, group string) {
	ctx := t.Context()
	gvr := s.define(t, definition(group))
	crds := s.definitions(t)
	condition := func(
		name string, kind apiextensionsv1.CustomResourceDefinitionConditionType, want apiextensionsv1.ConditionStatus,
	) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s to be %s: %s", name, kind, want), func(ctx context.Context) (bool, error) {
			crd, err := crds.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			for _, c := range crd.Status.Conditions {
				s.native(t, string(c.Type), c.Message)
				if c.Type == kind {
					return c.Status == want, nil
				}
			}
			return false, nil
		})
	}
	condition("foos."+group, apiextensionsv1.Established, apiextensionsv1.ConditionTrue)
	// The kind is taken.
	second := definition(group, named("foosagain", "Foo"))
	if _, err := crds.Create(ctx, second, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	condition(second.Name, apiextensionsv1.NamesAccepted, apiextensionsv1.ConditionFalse)
	if err := crds.Delete(ctx, second.Name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := crds.Create(ctx,
		definition(group, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Name = "wrong." + group }),
		metav1.CreateOptions{}); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "must be spec.names.plural+\".\"+spec.group") {
		t.Errorf("a definition with a wrong name: %v", err)
	}
	// A change of the schema is in force.
	change := `{"spec":{"versions":[{"name":"v1","served":true,"storage":true,` +
		`"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",` +
		`"properties":{"size":{"type":"integer","default":5}}}}}}}]}}`
	if _, err := crds.Patch(ctx, "foos."+group, types.MergePatchType, []byte(change),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the changed schema", func(ctx context.Context) (bool, error) {
		made, err := s.in(gvr, namespace).Create(ctx, foo(gvr, "tried", map[string]any{}),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && field(made, "spec", "size") == "5", nil
	})
	// What has finalizers holds the CRD until they go.
	held := foo(gvr, "held", nil)
	held.SetFinalizers([]string{"example.com/hold"})
	s.makes(t, gvr, namespace, held)
	if err := crds.Delete(ctx, "foos."+group, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	condition("foos."+group, apiextensionsv1.Terminating, apiextensionsv1.ConditionTrue)
	var late error
	// What serves learns of it a moment later.
	eventually(t, "what is made while the definition goes to be refused", func(ctx context.Context) (bool, error) {
		_, late = s.in(gvr, namespace).Create(ctx, foo(gvr, "late", nil),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return late != nil, nil
	})
	if !strings.Contains(late.Error(), "custom resource definition is terminating") {
		t.Errorf("made while the definition goes: %v", late)
	}
	if _, err := s.in(gvr, namespace).Patch(ctx, "held", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("releasing what was held: %v", err)
	}
	eventually(t, "the definition to go", func(ctx context.Context) (bool, error) {
		_, err := crds.Get(ctx, "foos."+group, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	eventually(t, "the resource not to be served", func(ctx context.Context) (bool, error) {
		_, err := s.in(gvr, namespace).List(ctx, metav1.ListOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// testCustomConversion: the versions of a resource are converted by a webhook,
// which gets native names.
func testCustomConversion(t *testing.T, _ *plane, s *space, namespace, group string) {
	h := newHooks(t)
	var mu sync.Mutex
	var seen []string
	h.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var review apiextensionsv1.ConversionReview
		if err != nil || json.Unmarshal(body, &review) != nil || review.Request == nil {
			http.Error(w, "not a review", http.StatusBadRequest)
			return
		}
		mu.Lock()
		seen = append(seen, string(body))
		mu.Unlock()
		response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID,
			Result: metav1.Status{Status: metav1.StatusSuccess}}
		from, to := "size", "replicas"
		if strings.HasSuffix(review.Request.DesiredAPIVersion, "/v1alpha1") {
			from, to = to, from
		}
		for i := range review.Request.Objects {
			raw := &review.Request.Objects[i]
			var u unstructured.Unstructured
			_ = u.UnmarshalJSON(raw.Raw) // it comes from the server
			spec, _, _ := unstructured.NestedMap(u.Object, "spec")
			if value, ok := spec[from]; ok {
				spec[to] = value
				delete(spec, from)
				u.Object["spec"] = spec
			}
			if size, _, _ := unstructured.NestedInt64(u.Object, "spec", to); size == 13 {
				response.Result = metav1.Status{Status: metav1.StatusFailure, Message: "thirteen cannot be converted"}
			}
			u.SetAPIVersion(review.Request.DesiredAPIVersion)
			raw.Raw, _ = u.MarshalJSON()
			response.ConvertedObjects = append(response.ConvertedObjects, *raw)
		}
		if response.Result.Status == metav1.StatusFailure {
			response.ConvertedObjects = nil
		}
		review.Request, review.Response = nil, response
		writeJSON(w, review)
	})
	url := h.URL + "/convert"
	v1 := s.define(t, definition(group, func(crd *apiextensionsv1.CustomResourceDefinition) {
		old := crd.Spec.Versions[0].DeepCopy()
		old.Name, old.Storage = "v1alpha1", false
		crd.Spec.Versions = append(crd.Spec.Versions, *old)
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"},
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: h.ca},
			},
		}
	}))
	v1alpha1 := v1
	v1alpha1.Version = "v1alpha1"
	ctx := t.Context()
	made := s.makes(t, v1alpha1, namespace, foo(v1alpha1, "old", map[string]any{"size": int64(1)}))
	if field(made, "spec", "size") != "1" || made.GetAPIVersion() != group+"/v1alpha1" ||
		made.GetNamespace() != namespace {
		t.Errorf("made by the old version: %v", made)
	}
	s.makes(t, v1, namespace, foo(v1, "new", map[string]any{"replicas": int64(2)}))
	up, err := s.in(v1, namespace).Get(ctx, "old", metav1.GetOptions{})
	if err != nil || field(up, "spec", "replicas") != "1" || field(up, "spec", "size") != "<none>" {
		t.Errorf("the old one in the new version: %v, %v", up, err)
	}
	list, err := s.in(v1alpha1, "").List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 || field(&list.Items[0], "spec", "size") != "2" ||
		list.Items[0].GetNamespace() != namespace {
		t.Errorf("all in the old version: %v, %v", list, err)
	}
	if _, err := s.in(v1alpha1, namespace).Patch(ctx, "new", types.MergePatchType, []byte(`{"spec":{"size":3}}`),
		metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	if up, err = s.in(v1, namespace).Get(ctx, "new", metav1.GetOptions{}); err != nil ||
		field(up, "spec", "replicas") != "3" {
		t.Errorf("the new one after a change by the old version: %v, %v", up, err)
	}
	_, err = s.in(v1alpha1, namespace).Create(ctx, foo(v1alpha1, "bad", map[string]any{"size": int64(13)}),
		metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "thirteen cannot be converted") {
		t.Errorf("what cannot be converted: %v", err)
	}
	s.native(t, "refusal", fmt.Sprint(err))
	// What cannot be converted is not shown as it is.
	s.makes(t, v1, namespace, foo(v1, "thirteen", map[string]any{"replicas": int64(13)}))
	if got, err := s.in(v1alpha1, namespace).Get(ctx, "thirteen", metav1.GetOptions{}); err == nil ||
		!strings.Contains(err.Error(), "thirteen cannot be converted") {
		t.Errorf("read what cannot be converted: %v, %v", got, err)
	}
	if err := s.in(v1, namespace).Delete(ctx, "thirteen", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	// A webhook that wants the one version is asked about the other, too.
	hook := newHooks(t)
	grow := mutating(group, hook.byURL("/grow"))
	grow.Rules = []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"},
			Resources: []string{"foos"}},
	}}
	hook.respond("/grow", patch(`[{"op":"add","path":"/spec/replicas","value":5}]`))
	s.mutate(t, group, grow)
	eventually(t, "the webhook to change what the old version makes", func(ctx context.Context) (bool, error) {
		made, err := s.in(v1alpha1, namespace).Create(ctx, foo(v1alpha1, "grown", map[string]any{"size": int64(4)}),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && field(made, "spec", "size") == "5", err
	})
	mu.Lock()
	defer mu.Unlock()
	if len(seen) == 0 {
		t.Error("the webhook was not called")
	}
	for _, body := range seen {
		if found := composite.FindString(body); found != "" {
			t.Errorf("the webhook was sent %q in %s", found, body)
		}
	}
}
