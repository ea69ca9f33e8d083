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

	"github.com/a4s-io/a4s/server/addons/charts/reconcile"
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
			m.Annotations = map[string]string{reconcile.UnmanagedAnnotation: ""}
		}, false},
		"another's": {func(m *metav1.PartialObjectMetadata) {
			m.Annotations = map[string]string{reconcile.ManagedByAnnotation: "x"}
		}, false},
		"claimed": {func(m *metav1.PartialObjectMetadata) {
			m.ResourceVersion = "2"
			m.Annotations = map[string]string{reconcile.ManagedByAnnotation: reconcile.ManagedBy}
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
