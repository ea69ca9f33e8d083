package supportbundle

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// canary is what must not come through.
const canary = "zqcanaryzq"

// typesOfKinds are the types of all kinds that are taken, by resource.
func typesOfKinds(t *testing.T) map[string]reflect.Type {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]reflect.Type{}
	for _, c := range append(ofCluster(), append(ofSpace(), collection{"/api/v1", "tenantusages"})...) {
		gv, err := schema.ParseGroupVersion(strings.TrimPrefix(strings.TrimPrefix(c.root, "/api/"), "/apis/"))
		if err != nil {
			t.Fatal(err)
		}
		for kind, typ := range scheme.KnownTypes(gv) {
			if strings.EqualFold(pluralOf(kind), c.resource) {
				out[c.resource] = typ
			}
		}
		if out[c.resource] == nil {
			t.Fatalf("there is no type of %s", c.resource)
		}
	}
	return out
}

func pluralOf(kind string) string {
	switch {
	case strings.HasSuffix(kind, "s"):
		if kind == "Endpoints" {
			return kind
		}
		return kind + "es"
	case strings.HasSuffix(kind, "y"):
		return strings.TrimSuffix(kind, "y") + "ies"
	}
	return kind + "s"
}

// fill puts text into all that holds any and that is not shown, and lets shown say of the rest.
func fill(v reflect.Value, of, name string, depth int, shown func(of, name string) bool) {
	switch t := v.Type(); {
	case depth > 25, plain(t), t == reflect.TypeFor[intstr.IntOrString]():
		return
	case t == reflect.TypeFor[runtime.RawExtension]():
		v.Set(reflect.ValueOf(runtime.RawExtension{Raw: []byte(`"` + canary + `"`)}))
		return
	case t == reflect.TypeFor[metav1.FieldsV1]():
		v.Set(reflect.ValueOf(*metav1.NewFieldsV1(`{"f:` + canary + `":{}}`)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() && !shown(of, name) {
			v.SetString(canary)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), of, name, depth+1, shown)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				fill(v.Field(i), v.Type().Name(), tag, depth+1, shown)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(canary))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), of, name, depth+1, shown)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		entry := reflect.New(v.Type().Elem()).Elem()
		fill(entry, of, name, depth+1, shown)
		// A key that is called like a field which is shown.
		v.SetMapIndex(reflect.ValueOf("name").Convert(v.Type().Key()), entry)
	}
}

// TestOnlyWhatIsShownComesThrough: of every kind, whatever else has text in it.
func TestOnlyWhatIsShownComesThrough(t *testing.T) {
	r := newReducer(false, newScrubber(nil))
	for resource, typ := range typesOfKinds(t) {
		made := reflect.New(typ)
		fill(made.Elem(), "", "", 0, r.shows)
		obj, ok := made.Interface().(runtime.Object)
		if !ok {
			t.Fatalf("%s is no object", resource)
		}
		before, err := json.Marshal(obj)
		if err != nil {
			t.Fatalf("%s: %v", resource, err)
		}
		r.reduce(obj)
		after, err := json.Marshal(obj)
		if err != nil {
			t.Fatalf("%s: %v", resource, err)
		}
		if !strings.Contains(string(before), canary) || strings.Contains(string(after), canary) ||
			strings.Contains(string(after), "enFjYW5hcnl6c") { // in base64
			t.Errorf("%s:\n%s", resource, after)
		}
	}
}

// TestShownFieldsAreFields: nothing is in the table that no kind has, or that is never harmless.
func TestShownFieldsAreFields(t *testing.T) {
	has := map[string]bool{}
	seen := map[reflect.Type]bool{}
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(t.Elem())
		case reflect.Struct:
			if seen[t] {
				return
			}
			seen[t] = true
			for i := range t.NumField() {
				f := t.Field(i)
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				inner := f.Type
				for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, inner.Kind()) {
					inner = inner.Elem()
				}
				if inner == reflect.TypeFor[string]() {
					has[name], has[t.Name()+"."+name] = true, true
				}
				visit(f.Type)
			}
		}
	}
	for _, typ := range typesOfKinds(t) {
		visit(typ)
	}
	shown := shownFields()
	for name := range shown {
		if !has[name] {
			t.Errorf("no kind has a text %s", name)
		}
	}
	for _, name := range []string{"value", "data", "binaryData", "stringData", "annotations", "command", "args",
		"token", "password", "url", "path", "expression", "volumeAttributes", "parameters", "options", "user",
		"monitors", "message."} {
		if shown[name] {
			t.Errorf("%s is shown", name)
		}
	}
}

func TestReducedObjectsAreOfUse(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"},
		Annotations: map[string]string{"x": canary}}}
	pod.Spec.NodeName = "n1"
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "nginx:stable", Command: []string{"sh", canary},
		Env: []corev1.EnvVar{{Name: "PASSWORD", Value: canary}}}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Message = "all is well"
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", Message: canary}}}}
	newReducer(false, newScrubber(nil)).reduce(pod)
	data, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"app":"web"`, `"nodeName":"n1"`, `"value":"gpu"`, `"image":"nginx:stable"`,
		`"name":"PASSWORD","value":"\u003c10 characters\u003e"`, `"phase":"Running"`, `"message":"all is well"`,
		`"exitCode":3`, `"reason":"Error"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s is not in %s", want, data)
		}
	}
	if strings.Contains(string(data), canary) {
		t.Errorf("%s", data)
	}
	said := &corev1.Event{Reason: "Unhealthy", Message: "Readiness probe failed: " + canary}
	newReducer(false, newScrubber(nil)).reduce(said)
	if strings.Contains(said.Message, canary) {
		t.Errorf("what a probe wrote: %s", said.Message)
	}
	for takes, want := range map[bool]string{false: "<10 characters>", true: canary} {
		data := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": canary}},
			Data: map[string]string{"k": canary}}
		newReducer(takes, newScrubber(nil)).reduce(data)
		if data.Data["k"] != want || data.Annotations["a"] == canary {
			t.Errorf("with data %t: %v", takes, data)
		}
	}
}
