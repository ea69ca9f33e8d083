package discovery

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// definition is a namespaced one of example.com: v1beta1, v1 (stored, with
// both subresources) and v2 that is not served.
func definition(
	plural, kind string, change ...func(*apiextensionsv1.CustomResourceDefinition),
) *apiextensionsv1.CustomResourceDefinition {
	names := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List",
		ShortNames: []string{plural[:2]}, Categories: []string{"all"},
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped, Names: names,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				versionOf("v1beta1", "size"), versionOf("v1", "size", "count"), versionOf("v2", "other"),
			},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			AcceptedNames: names,
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
			},
		},
	}
	crd.Spec.Versions[1].Storage = true
	crd.Spec.Versions[1].Subresources = &apiextensionsv1.CustomResourceSubresources{
		Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
		Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.count",
			StatusReplicasPath: ".status.count"},
	}
	crd.Spec.Versions[1].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.size"}}
	crd.Spec.Versions[2].Served = false
	for _, f := range change {
		f(crd)
	}
	return crd
}

func versionOf(name string, fields ...string) apiextensionsv1.CustomResourceDefinitionVersion {
	of := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	for _, f := range fields {
		of.Properties[f] = apiextensionsv1.JSONSchemaProps{Type: "integer", Description: f + " of " + name,
			Default: &apiextensionsv1.JSON{Raw: []byte("1")}}
	}
	return apiextensionsv1.CustomResourceDefinitionVersion{
		Name: name, Served: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": of},
		}},
	}
}

func clusterScoped(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Spec.Scope = apiextensionsv1.ClusterScoped
}

func terminating(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Status.Conditions = append(crd.Status.Conditions, apiextensionsv1.CustomResourceDefinitionCondition{
		Type:   apiextensionsv1.Terminating,
		Status: apiextensionsv1.ConditionTrue,
	})
}

// takenNames is a CRD that asks for names which are another's.
func takenNames(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Status.AcceptedNames.ShortNames, crd.Status.AcceptedNames.Singular = nil, "accepted"
}

func only(
	versions ...apiextensionsv1.CustomResourceDefinitionVersion,
) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions = versions }
}

func v1() schema.GroupVersion { return schema.GroupVersion{Group: "example.com", Version: "v1"} }

// TestDiscoveryOfDefinitions holds the documents against the ones that an API
// server of upstream gives for the same CRDs.
func TestDiscoveryOfDefinitions(t *testing.T) {
	for _, c := range []struct{ name, want, legacy string }{
		{
			name: "whole",
			want: `{"resource":"widgets","responseKind":{"group":"example.com","version":"v1","kind":"Widget"},` +
				`"scope":"Namespaced","singularResource":"widget","verbs":["delete","deletecollection","get","list",` +
				`"patch","create","update","watch"],"shortNames":["wi"],"categories":["all"],"subresources":[{` +
				`"subresource":"status","responseKind":{"group":"example.com","version":"v1","kind":"Widget"},` +
				`"verbs":["get","patch","update"]},{"subresource":"scale","responseKind":{"group":"autoscaling",` +
				`"version":"v1","kind":"Scale"},"verbs":["get","patch","update"]}]}`,
			legacy: `[{"name":"widgets","singularName":"widget","namespaced":true,"kind":"Widget","verbs":["delete",` +
				`"deletecollection","get","list","patch","create","update","watch"],"shortNames":["wi"],` +
				`"categories":["all"],"storageVersionHash":"gIwvi5rymmg="},{"name":"widgets/status",` +
				`"singularName":"","namespaced":true,"kind":"Widget","verbs":["get","patch","update"]},` +
				`{"name":"widgets/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1",` +
				`"kind":"Scale","verbs":["get","patch","update"]}]`,
		},
		{
			name: "terminating",
			want: `{"resource":"widgets","responseKind":{"group":"example.com","version":"v1","kind":"Widget"},` +
				`"scope":"Cluster","singularResource":"widget","verbs":["delete","deletecollection","get","list",` +
				`"watch"],"shortNames":["wi"],"categories":["all"]}`,
			legacy: `[{"name":"widgets","singularName":"widget","namespaced":false,"kind":"Widget","verbs":[` +
				`"delete","deletecollection","get","list","watch"],"shortNames":["wi"],"categories":["all"]}]`,
		},
		{
			name: "taken names",
			want: `{"resource":"widgets","responseKind":{"group":"example.com","version":"v1","kind":"Widget"},` +
				`"scope":"Namespaced","singularResource":"accepted","verbs":["delete","deletecollection","get",` +
				`"list","patch","create","update","watch"],"categories":["all"]}`,
			legacy: `[{"name":"widgets","singularName":"accepted","namespaced":true,"kind":"Widget","verbs":[` +
				`"delete","deletecollection","get","list","patch","create","update","watch"],"categories":["all"]}]`,
		},
	} {
		var crd *apiextensionsv1.CustomResourceDefinition
		switch c.name {
		case "whole":
			crd = definition("widgets", "Widget")
		case "terminating":
			crd = definition("widgets", "Widget", clusterScoped, terminating, only(versionOf("v1", "size")))
		default:
			crd = definition("widgets", "Widget", takenNames, only(versionOf("v1", "size")))
		}
		s := Set{crd}
		for _, v := range s.Aggregated()[0].Versions {
			if v.Version == "v1" {
				if got := encode(t, v.Resources[0]); got != c.want {
					t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
				}
			}
		}
		if got := encode(t, s.Resources(v1())); got != c.legacy {
			t.Errorf("%s, legacy:\n got %s\nwant %s", c.name, got, c.legacy)
		}
	}
}

func TestServedVersionsAreInOrder(t *testing.T) {
	s := Set{
		definition("gadgets", "Gadget", only(versionOf("v1alpha1"), versionOf("v10"), versionOf("foo"))),
		definition("widgets", "Widget"),
	}
	want := []string{"v10", "v1", "v1beta1", "v1alpha1", "foo"}
	group := s.Groups()[0]
	var got, aggregated []string
	for _, v := range group.Versions {
		got = append(got, v.Version)
	}
	for _, v := range s.Aggregated()[0].Versions {
		aggregated = append(aggregated, v.Version)
	}
	if !slices.Equal(got, want) || !slices.Equal(aggregated, want) ||
		group.PreferredVersion.GroupVersion != "example.com/v10" {
		t.Errorf("legacy %v, aggregated %v, preferred %v", got, aggregated, group.PreferredVersion)
	}
	if r := s.Resources(schema.GroupVersion{Group: "example.com", Version: "v2"}); r != nil {
		t.Errorf("a version that is not served has %v", r)
	}
	none := Set{definition("widgets", "Widget", func(crd *apiextensionsv1.CustomResourceDefinition) {
		for i := range crd.Spec.Versions {
			crd.Spec.Versions[i].Served = false
		}
	})}
	if none.Groups() != nil || none.Aggregated() != nil {
		t.Error("a group without a served version is announced")
	}
}

func TestOpenAPIOfDefinitions(t *testing.T) {
	s := Set{definition("gadgets", "Gadget", clusterScoped), definition("widgets", "Widget")}
	three := encode(t, s.OpenAPI3(v1()))
	for _, part := range []string{
		`"/apis/example.com/v1/gadgets/{name}/scale"`,
		`"/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/status"`,
		`"com.example.v1.WidgetList"`, `"count of v1"`,
		`"x-kubernetes-selectable-fields":[{"fieldPath":"spec.size"}]`, `"default":1`,
	} {
		if !strings.Contains(three, part) {
			t.Errorf("version 3 has no %s", part)
		}
	}
	if strings.Contains(three, "v1beta1.Widget") ||
		s.OpenAPI3(schema.GroupVersion{Group: "example.com", Version: "v2"}) != nil {
		t.Error("version 3 tells about another version")
	}

	// Upstream's document has another Status than the CRDs,
	// which stays, and one that is equal to theirs, which they use.
	ours, err := s.OpenAPI2(&spec.Swagger{})
	if err != nil {
		t.Fatal(err)
	}
	const status = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
	other := spec.Schema{SchemaProps: spec.SchemaProps{Description: "another"}}
	static := &spec.Swagger{}
	static.Definitions = spec.Definitions{status: other, status + "_v2": ours.Definitions[status]}
	merged, err := s.OpenAPI2(static)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(merged.Definitions[status], other) {
		t.Error("a model of upstream was replaced")
	}
	two := encode(t, merged.Paths)
	for _, part := range []string{`"/apis/example.com/v1beta1/gadgets/{name}"`,
		`"/apis/example.com/v1/namespaces/{namespace}/widgets"`, `#/definitions/` + status + `_v2"`} {
		if !strings.Contains(two, part) {
			t.Errorf("version 2 has no %s", part)
		}
	}
	if _, ok := merged.Definitions[status+"_v3"]; ok {
		t.Error("an equal model was renamed")
	}
	if model := encode(t, merged.Definitions["com.example.v1.Widget"]); strings.Contains(model, `"default"`) ||
		!strings.Contains(model, "count of v1") {
		t.Errorf("the model of version 2: %s", model)
	}
}

// TestOneKindTwice: a kind that two CRDs ask for must not take the
// others out of the document.
func TestOneKindTwice(t *testing.T) {
	s := Set{definition("gadgets", "Gadget"), definition("things", "Gadget"), definition("widgets", "Widget")}
	doc := encode(t, s.OpenAPI3(v1()))
	if !strings.Contains(doc, "/gadgets") || !strings.Contains(doc, "/widgets") {
		t.Error("definitions without a conflict are not in the document")
	}
}

func TestDigestsTellSetsApart(t *testing.T) {
	of := func(s Set) map[schema.GroupVersion]string {
		d, err := s.Digests()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	whole := of(Set{definition("widgets", "Widget")})
	if len(whole) != 2 || !reflect.DeepEqual(whole, of(Set{definition("widgets", "Widget",
		func(crd *apiextensionsv1.CustomResourceDefinition) { crd.UID, crd.ResourceVersion = "other", "2" })})) {
		t.Error("two definitions that say the same have other digests")
	}
	for name, other := range map[string]Set{
		"terminating": {definition("widgets", "Widget", terminating)},
		"other names": {definition("widgets", "Widget", takenNames)},
		"more":        {definition("widgets", "Widget"), definition("gadgets", "Gadget")},
		"none":        nil,
	} {
		if of(other)[v1()] == whole[v1()] {
			t.Errorf("%s: the digest is the same", name)
		}
	}
}

// TestMergeKeepsWhatIsThere: what upstream has stays as it is, and the order
// of versions is upstream's unless the group is one of CRDs only.
func TestMergeKeepsWhatIsThere(t *testing.T) {
	own := Set{definition("widgets", "Widget"), definition("gadgets", "Gadget")}
	there := apidiscovery.APIResourceDiscovery{Resource: "widgets", SingularResource: "upstream's"}
	group := func(name string) apidiscovery.APIGroupDiscovery {
		return apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name},
			Versions: []apidiscovery.APIVersionDiscovery{
				{Version: "v1beta1", Resources: []apidiscovery.APIResourceDiscovery{there}},
			}}
	}
	for _, c := range []struct {
		sorts Order
		want  string
	}{
		{func(string) bool { return false }, "apps/v1beta1 example.com/v1beta1 example.com/v1 "},
		{func(group string) bool { return group == "example.com" },
			"apps/v1beta1 example.com/v1 example.com/v1beta1 "},
	} {
		merged := MergeAggregated([]apidiscovery.APIGroupDiscovery{group("apps"), group("example.com")},
			own.Aggregated(), c.sorts)
		versions := ""
		for _, g := range merged {
			for _, v := range g.Versions {
				versions += g.Name + "/" + v.Version + " "
				if g.Name == "example.com" && v.Version == "v1beta1" && (len(v.Resources) != 2 ||
					v.Resources[0].SingularResource != "upstream's" || v.Resources[1].Resource != "gadgets") {
					t.Errorf("resources %+v", v.Resources)
				}
			}
		}
		if versions != c.want {
			t.Errorf("versions %q, want %q", versions, c.want)
		}
		groups := MergeGroups([]metav1.APIGroup{
			{Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{forDiscovery("example.com", "v1beta1")},
				PreferredVersion: forDiscovery("example.com", "v1beta1")},
		}, own.Groups(), c.sorts)
		if len(groups) != 1 || len(groups[0].Versions) != 2 ||
			strings.Contains(c.want, "example.com/v1 example") != (groups[0].PreferredVersion.Version == "v1") {
			t.Errorf("groups %+v", groups)
		}
	}
	list := MergeResources([]metav1.APIResource{{Name: "widgets", Kind: "Upstream"}}, own.Resources(v1()))
	if len(list) != 4 || list[0].Kind != "Upstream" || list[1].Name != "gadgets" || list[2].Name != "gadgets/status" {
		t.Errorf("resources %+v", list)
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
