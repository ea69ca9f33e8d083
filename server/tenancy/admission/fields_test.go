package admission

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	core "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	resourceapi "k8s.io/kubernetes/pkg/apis/resource"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// registered has a4s' own kinds in the scheme, as the API server does.
var registered = tenantapi.AddToScheme(legacyscheme.Scheme)

// fill sets v to something else than nothing.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("example.com/x")
	case reflect.Int64, reflect.Int32, reflect.Int:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("cpu").Convert(v.Type().Key()), reflect.New(v.Type().Elem()).Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[metav1.Time]() {
			v.Set(reflect.ValueOf(metav1.Now()))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
				return
			}
		}
	}
}

// update is a request that makes old into object; a nil old is none.
func update(t *testing.T, kind schema.GroupVersionKind, object, old runtime.Object, sub string) admission.Attributes {
	t.Helper()
	op := admission.Update
	if old == nil {
		op = admission.Create
	}
	return admission.NewAttributesRecord(object, old, kind, "default.t1", "x", schema.GroupVersionResource{}, sub, op,
		nil, false, nil)
}

// internal is an object as admission sees it.
func internal(t *testing.T, kind schema.GroupVersionKind, object runtime.Object) runtime.Object {
	t.Helper()
	scheme := legacyscheme.Scheme
	if kind.Group == apiextensions.GroupName {
		scheme = apiextensionsserver.Scheme
	}
	out, err := scheme.ConvertToVersion(object, schema.GroupVersion{Group: kind.Group,
		Version: runtime.APIVersionInternal})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTenantsWriteTheirFields changes one field of each kind after the other, in
// both directions and at once with the object.
func TestTenantsWriteTheirFields(t *testing.T) {
	if registered != nil {
		t.Fatal(registered)
	}
	g := &guard{kinds: kinds.New()}
	systems := 0
	for _, row := range kinds.FieldRows() {
		if row.Group == "metrics.k8s.io" || row.Kind == "TenantUsage" {
			continue // nobody writes them
		}
		example, kind := exampleOf(t, schema.GroupKind{Group: row.Group, Kind: row.Kind})
		blank := internal(t, kind, example)
		v := reflect.ValueOf(example).Elem()
		eachField(v, v, "", func(path string, field, _ reflect.Value) {
			row, _ := g.kinds.FieldsOf(kind.Group, kind.Kind)
			decided, ok := row.Field(path)
			if !ok {
				t.Fatalf("%s of %s is not decided", path, kind)
			}
			fill(field)
			changed := internal(t, kind, example)
			field.SetZero()
			own := decided.Why == ""
			if !own {
				systems++
			}
			for what, c := range map[string]struct {
				now, was runtime.Object
				sub      string
				refused  bool
			}{
				"added":      {changed, blank, "status", !own},
				"removed":    {blank, changed, "status", !own},
				"made":       {changed, nil, "", !own && !decided.Made},
				"changed":    {changed, blank, "", !own && !decided.Made},
				"left alone": {changed, changed.DeepCopyObject(), "status", false},
			} {
				err := checkKind(t.Context(), g, "t1", true, update(t, kind, c.now, c.was, c.sub))
				if path == "status.conditions" && kind.Kind == "Pod" && err == nil && c.sub == "status" {
					continue // one with a domain
				}
				if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), path+" ") {
					t.Errorf("%s of %s, %s: %v", path, kind, what, err)
				}
			}
			if err := checkKind(t.Context(), g, "t1", false, update(t, kind, changed, blank, "status")); err != nil {
				t.Errorf("%s of %s, by the system: %v", path, kind, err)
			}
		})
	}
	if systems < 35 {
		t.Errorf("%d fields of the system were tried", systems)
	}
}

// exampleOf is an empty object in the version that the guard reads.
func exampleOf(t *testing.T, gk schema.GroupKind) (runtime.Object, schema.GroupVersionKind) {
	t.Helper()
	scheme := legacyscheme.Scheme
	if gk.Group == apiextensions.GroupName {
		scheme = apiextensionsserver.Scheme
	}
	for _, version := range scheme.PrioritizedVersionsForGroup(gk.Group) {
		if kind := version.WithKind(gk.Kind); scheme.Recognizes(kind) {
			object, err := scheme.New(kind)
			if err != nil {
				t.Fatal(err)
			}
			return object, kind
		}
	}
	t.Fatalf("there is no version of %s", gk)
	return nil, schema.GroupVersionKind{}
}

// TestUndecidedFieldsAreRefused is about what a new Kubernetes brings.
func TestUndecidedFieldsAreRefused(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
	class := "fast"
	now := &core.PersistentVolumeClaim{Spec: core.PersistentVolumeClaimSpec{StorageClassName: &class}}
	w, ok, err := writtenIn(update(t, kind, now, &core.PersistentVolumeClaim{}, ""))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	of := kinds.Fields{Kind: kind.Kind, Fields: []kinds.Field{{Path: "spec.selector"}, {Path: "status.phase",
		Why: "x"}}}
	if err := checkFields(of, w, ""); err == nil || !strings.Contains(err.Error(), "spec.storageClassName") ||
		!strings.Contains(err.Error(), "change spec.selector") {
		t.Errorf("a field that is not in the table: %v", err)
	}
	g := &guard{kinds: kinds.New()}
	// A kind of the cluster that is not in the table, and one of the tenant's own.
	node := update(t, corev1.SchemeGroupVersion.WithKind("Node"), &core.Node{}, nil, "")
	if err := checkKind(t.Context(), g, "t1", true, node); err == nil {
		t.Error("a kind that is not in the table is taken")
	}
	custom := update(t, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Foo"},
		&unstructured.Unstructured{Object: map[string]any{"spec": "x", "status": "y"}}, nil, "status")
	if err := checkKind(t.Context(), g, "t1", true, custom); err != nil {
		t.Errorf("a custom resource: %v", err)
	}
}

// TestNothingIsAllocatedByNothing: upstream's conformance tests write an empty
// allocation, which gives nobody a device.
func TestNothingIsAllocatedByNothing(t *testing.T) {
	g := &guard{kinds: kinds.New()}
	_, kind := exampleOf(t, schema.GroupKind{Group: "resource.k8s.io", Kind: "ResourceClaim"})
	none, nothing := &resourceapi.ResourceClaim{}, &resourceapi.ResourceClaim{}
	nothing.Status.Allocation = &resourceapi.AllocationResult{}
	device := &resourceapi.ResourceClaim{}
	device.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "p", Device: "x"}}}}
	for _, c := range []struct {
		name     string
		now, was *resourceapi.ResourceClaim
		refused  bool
	}{
		{"nothing", nothing, none, false},
		{"none again", none, nothing, false},
		{"a device", device, none, true},
		{"a device after nothing", device, nothing, true},
		{"nothing instead of a device", nothing, device, true},
		{"a device given back", none, device, true},
	} {
		if err := checkKind(t.Context(), g, "t1", true, update(t, kind, c.now, c.was,
			"status")); (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestTenantsWriteTheirConditions(t *testing.T) {
	pod := func(conditions ...core.PodConditionType) *core.Pod {
		p := &core.Pod{}
		for _, c := range conditions {
			p.Status.Conditions = append(p.Status.Conditions, core.PodCondition{Type: c, Status: core.ConditionTrue})
		}
		return p
	}
	gated := func(p *core.Pod) *core.Pod {
		p.Spec.ReadinessGates = []core.PodReadinessGate{{ConditionType: "MyStatus"}, {ConditionType: "PodScheduled"}}
		return p
	}
	g := &guard{kinds: kinds.New()}
	for _, c := range []struct {
		now, was *core.Pod
		ok       bool
	}{
		{pod("Ready", "PodScheduled"), pod("PodScheduled"), true},
		{pod("PodScheduled", "example.com/gate"), pod("Ready", "PodScheduled", "Initialized"), true},
		{pod("PodScheduled"), pod(), false},
		{pod(), pod("PodScheduled"), false},
		{pod("PodResizePending"), pod(), false},
		{pod("Ready", "Ready", "DisruptionTarget"), pod("Ready"), false},
		{pod("PodScheduled", "PodScheduled"), pod("PodScheduled"), false},
		{pod("Unheard"), pod(), false},
		{pod("MyStatus"), pod(), false},
		{gated(pod("MyStatus")), gated(pod()), true},
		{gated(pod()), gated(pod("MyStatus")), true},
		{gated(pod("PodScheduled")), gated(pod()), false},
		{gated(pod("Unheard")), gated(pod()), false},
	} {
		attr := update(t, corev1.SchemeGroupVersion.WithKind("Pod"), c.now, c.was, "status")
		if err := checkKind(t.Context(), g, "t1", true, attr); (err == nil) != c.ok {
			t.Errorf("%v, was %v: %v", c.now.Status.Conditions, c.was.Status.Conditions, err)
		}
	}
}
