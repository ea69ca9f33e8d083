package charts

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	helmv1 "github.com/k3s-io/helm-controller/pkg/apis/helm.cattle.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// names are those of the fields of a struct in JSON.
func names(typ reflect.Type) (list []string) {
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// TestFieldsAreThoseOfK3s: the CRDs have the fields that k3s' have, and no others.
func TestFieldsAreThoseOfK3s(t *testing.T) {
	want := map[string]map[string]reflect.Type{
		"helmcharts.helm.cattle.io": {"spec": reflect.TypeFor[helmv1.HelmChartSpec](),
			"status": reflect.TypeFor[helmv1.HelmChartStatus]()},
		"helmchartconfigs.helm.cattle.io": {"spec": reflect.TypeFor[helmv1.HelmChartConfigSpec]()},
	}
	list, err := crds()
	if err != nil || len(list) != len(want) {
		t.Fatalf("%d CRDs, %v", len(list), err)
	}
	for _, crd := range list {
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		if err != nil || len(versions) != 1 {
			t.Fatalf("%s: %v", crd.GetName(), err)
		}
		for part, typ := range want[crd.GetName()] {
			fields, _, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema",
				"properties", part, "properties")
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, names(typ)) {
				t.Errorf("%s: %s has %q, want %q", crd.GetName(), part, got, names(typ))
			}
		}
	}
}

// TestManaged: which HelmCharts are worked on.
func TestManaged(t *testing.T) {
	for what, c := range map[string]struct {
		annotations map[string]string
		spec        helmv1.HelmChartSpec
		want        bool
	}{
		"new":             {nil, helmv1.HelmChartSpec{Chart: "x"}, true},
		"inline":          {nil, helmv1.HelmChartSpec{ChartContent: "x"}, true},
		"claimed":         {map[string]string{managedByAnnotation: managedBy}, helmv1.HelmChartSpec{Chart: "x"}, true},
		"another's":       {map[string]string{managedByAnnotation: "x"}, helmv1.HelmChartSpec{Chart: "x"}, false},
		"nobody's":        {map[string]string{unmanagedAnnotation: ""}, helmv1.HelmChartSpec{Chart: "x"}, false},
		"without a chart": {nil, helmv1.HelmChartSpec{Repo: "x"}, false},
		"claimed, but not": {map[string]string{managedByAnnotation: managedBy, unmanagedAnnotation: "true"},
			helmv1.HelmChartSpec{Chart: "x"}, false},
	} {
		chart := &helmv1.HelmChart{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}, Spec: c.spec}
		if got := managed(chart); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// TestInvalid: what can have no release is refused before it is claimed, and is let go without looking for one.
func TestInvalid(t *testing.T) {
	for what, c := range map[string]struct {
		name, target, version, want string
	}{
		"right":             {"web", "", "", ""},
		"elsewhere":         {"web", "default", "v3", ""},
		"of a tenant":       {"web", "default.t1", "", "not a namespace of the system space"},
		"a path":            {"web", "a/secrets", "", "not the name of a namespace"},
		"long namespace":    {"web", strings.Repeat("a", 64), "", "not the name of a namespace"},
		"too long a name":   {strings.Repeat("a", 64), "", "", "metadata.name"},
		"too long for Helm": {strings.Repeat("a", 54), "", "", "metadata.name"},
		"another version":   {"web", "", "v2", "want v3"},
		"upper case":        {"web", "Default", "", "not the name of a namespace"},
	} {
		err := invalid(&helmv1.HelmChart{ObjectMeta: metav1.ObjectMeta{Name: c.name, Namespace: "kube-system"},
			Spec: helmv1.HelmChartSpec{TargetNamespace: c.target, HelmVersion: c.version}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestWhatChanges: a HelmChart is looked at again when its spec changes, when it is given away or taken over and when
// it is deleted, and neither for its status nor for our claim; a Secret for anything.
func TestWhatChanges(t *testing.T) {
	object := func(change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: types.UID("1"),
			Generation: 1, ResourceVersion: "1", Annotations: map[string]string{"other": "x"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}}}
		change(m)
		kept, err := trim(m)
		if err != nil || kept.(*metav1.PartialObjectMetadata).ManagedFields != nil {
			t.Fatal(kept, err)
		}
		return kept.(*metav1.PartialObjectMetadata)
	}
	for what, c := range map[string]struct {
		change func(*metav1.PartialObjectMetadata)
		same   bool
	}{
		"status": {func(m *metav1.PartialObjectMetadata) { m.ResourceVersion = "2" }, true},
		"other annotations": {func(m *metav1.PartialObjectMetadata) {
			m.ResourceVersion, m.Annotations = "2", map[string]string{"a": "b"}
		}, true},
		"spec": {func(m *metav1.PartialObjectMetadata) { m.Generation = 2 }, false},
		"given away": {func(m *metav1.PartialObjectMetadata) {
			m.Annotations = map[string]string{unmanagedAnnotation: ""}
		}, false},
		"another's": {func(m *metav1.PartialObjectMetadata) {
			m.Annotations = map[string]string{managedByAnnotation: "x"}
		}, false},
		"claimed": {func(m *metav1.PartialObjectMetadata) {
			m.ResourceVersion, m.Annotations = "2", map[string]string{managedByAnnotation: managedBy}
		}, true},
		"deleted": {func(m *metav1.PartialObjectMetadata) {
			now := metav1.Now()
			m.DeletionTimestamp = &now
		}, false},
		"another one": {func(m *metav1.PartialObjectMetadata) { m.UID = "2" }, false},
	} {
		if got := same(object(func(*metav1.PartialObjectMetadata) {}), object(c.change)); got != c.same {
			t.Errorf("%s: %v", what, got)
		}
	}
	secret := func(version string) any {
		return object(func(m *metav1.PartialObjectMetadata) { m.Generation, m.ResourceVersion = 0, version })
	}
	if same(secret("1"), secret("2")) || !same(secret("1"), secret("1")) {
		t.Error("a Secret")
	}
}

// TestMessagesAreShort: what is said of an error fits into an event, and ends at a character.
func TestMessagesAreShort(t *testing.T) {
	long := strings.Repeat("ä", 2*maxMessage)
	got := short(long)
	if len(got) > maxMessage+3 || !strings.HasPrefix(long, strings.TrimSuffix(got, "...")) {
		t.Errorf("%d bytes", len(got))
	}
	if short("x") != "x" {
		t.Error("a short one is changed")
	}
}
