package interning

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// fresh makes an object whose strings no other object has.
func fresh(example kruntime.Object) kruntime.Object {
	data, err := kruntime.DefaultUnstructuredConverter.ToUnstructured(example)
	if err != nil {
		panic(err)
	}
	out := reflect.New(reflect.TypeOf(example).Elem()).Interface().(kruntime.Object)
	if err := kruntime.DefaultUnstructuredConverter.FromUnstructured(cloned(data).(map[string]any), out); err != nil {
		panic(err)
	}
	return out
}

func cloned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			out[strings.Clone(key)] = cloned(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = cloned(v[i])
		}
		return out
	case string:
		return strings.Clone(v)
	}
	return v
}

func objectMeta() metav1.ObjectMeta {
	at := metav1.NewTime(time.Unix(1700000000, 0))
	return metav1.ObjectMeta{
		Name: "kube-root-ca.crt", Namespace: "default.t1", UID: "16a1f7a6-0000-4000-8000-000000000001",
		Labels:      map[string]string{"some": "label"},
		Annotations: map[string]string{"kubernetes.io/description": "A description."},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "kube-controller-manager", Operation: "Update", APIVersion: "v1", Time: &at,
			FieldsType: "FieldsV1",
			FieldsV1:   metav1.NewFieldsV1(`{"f:data":{".":{},"f:ca.crt":{}}}`),
		}},
	}
}

func configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: objectMeta(),
		Data: map[string]string{"ca.crt": strings.Repeat("certificate", 100)}}
}

// at is where the bytes of a string are.
func at[S ~string](s S) *byte { return unsafe.StringData(string(s)) }

func TestEqualValuesAreInterned(t *testing.T) {
	p := New()
	a, b := fresh(configMap()).(*corev1.ConfigMap), fresh(configMap()).(*corev1.ConfigMap)
	if at(a.Data["ca.crt"]) == at(b.Data["ca.crt"]) {
		t.Fatal("they have memory in common before")
	}
	p.Object(a)
	p.Object(b)
	for what, places := range map[string][2]*byte{
		"name": {at(a.Name), at(b.Name)}, "namespace": {at(a.Namespace), at(b.Namespace)},
		"UID":  {at(a.UID), at(b.UID)},
		"data": {at(a.Data["ca.crt"]), at(b.Data["ca.crt"])}, "labels": {at(a.Labels["some"]), at(b.Labels["some"])},
		"keys":    {at(key(a.Annotations)), at(key(b.Annotations))},
		"manager": {at(a.ManagedFields[0].Manager), at(b.ManagedFields[0].Manager)},
	} {
		if places[0] != places[1] {
			t.Errorf("%s: two copies", what)
		}
	}
	if a.ManagedFields[0].FieldsV1 != b.ManagedFields[0].FieldsV1 {
		t.Error("fields: two copies")
	}
	for what, m := range map[string][2]map[string]string{"labels": {a.Labels, b.Labels}, "data": {a.Data, b.Data}} {
		if reflect.ValueOf(m[0]).Pointer() != reflect.ValueOf(m[1]).Pointer() {
			t.Errorf("%s: two maps", what)
		}
	}
	// What comes out of a cache is copied before it is changed.
	c := b.DeepCopy()
	c.Labels["some"], c.ManagedFields[0].Manager, c.Data["ca.crt"] = "other", "other", "other"
	c.ManagedFields[0].FieldsV1.SetRawString("other")
	if want := configMap(); !reflect.DeepEqual(a, want) || !reflect.DeepEqual(b, want) {
		t.Errorf("changed with the copy: %v, %v", a, b)
	}
}

func key(m map[string]string) string {
	for k := range m {
		return k
	}
	return ""
}

func TestInterningKeepsObjectsEqual(t *testing.T) {
	p := New()
	for range 2 {
		for _, example := range []kruntime.Object{
			configMap(),
			&corev1.Secret{ObjectMeta: objectMeta(), Type: corev1.SecretTypeOpaque,
				Data: map[string][]byte{"k": []byte("v")}},
			&corev1.Pod{ObjectMeta: objectMeta(), Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"a": "b"},
				Containers: []corev1.Container{{
					Name: "c", Image: "image", Args: []string{"x", "x", strings.Repeat("long", longLength)},
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse(
						"1")}},
				}},
			}},
			&rbacv1.ClusterRole{ObjectMeta: objectMeta(),
				Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Verbs: []string{"*", "get"}}}},
			&corev1.Namespace{},
			&corev1.ConfigMap{Data: map[string]string{"1": "a", "2": "b", "3": "c", "4": "d", "5": "e", "6": "f",
				"7": "g", "8": "h", "9": "i"}},
			&corev1.ConfigMap{Data: map[string]string{"b": "1", "a": "2"}},
			&corev1.ConfigMap{Data: map[string]string{"a": "1", "b": "2"}},
		} {
			got := fresh(example)
			p.Object(got)
			if !reflect.DeepEqual(got, fresh(example)) {
				t.Errorf("changed to %v", got)
			}
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"kind": "K"}}
	p.Object(u)
	p.Object(nil)
	p.Object((*corev1.Pod)(nil))
	if u.GetKind() != "K" {
		t.Error("an object without a type changed")
	}
}

func TestSecretsAreNotRemembered(t *testing.T) {
	p := New()
	p.Object(&corev1.Secret{Data: map[string][]byte{"k": []byte("secret")}})
	for i := range p.short {
		if s := p.short[i].Load(); s != nil && *s == "secret" {
			t.Error("the data of a secret is in the pool")
		}
	}
}

func TestTransformDropsManagedFieldsOnly(t *testing.T) {
	p := New()
	got, err := p.Transform(fresh(configMap()))
	want := configMap()
	want.ManagedFields = nil
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := p.Transform("tombstone"); got != "tombstone" || err != nil {
		t.Errorf("of a value that is no object: %v, %v", got, err)
	}
}

func TestPoolDoesNotGrow(t *testing.T) {
	p := New()
	size := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var before uint64
	for i := range 20 * shortSlots {
		if i == 10*shortSlots {
			before = size()
		}
		p.string(strings.Repeat("x", 16) + string(rune(i)))
	}
	if after := size(); after > before+before/4 {
		t.Errorf("from %d to %d bytes", before, after)
	}
}

// A map may be in use already when an equal one, or the object it is in, comes
// again.
func TestInternedMapsAreNotWrittenTo(t *testing.T) {
	p := New()
	first := fresh(configMap()).(*corev1.ConfigMap)
	p.Object(first)
	stop, read := make(chan struct{}), make(chan struct{})
	go func() { // the race detector and the runtime notice a concurrent write
		defer close(read)
		for {
			select {
			case <-stop:
				return
			default:
				_ = len(first.Data["ca.crt"])
			}
		}
	}()
	for range 100 {
		p.Object(fresh(configMap()))
		p.Object(&corev1.ConfigMap{Data: first.Data})
	}
	close(stop)
	<-read
}

func TestPoolIsSafe(t *testing.T) {
	p := New()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				p.Object(fresh(configMap()))
			}
		})
	}
	all.Wait()
}

func BenchmarkObject(b *testing.B) {
	p := New()
	cm := fresh(configMap())
	b.ReportAllocs()
	for b.Loop() {
		p.Object(cm)
	}
}

func TestInformersHaveOneCopyOfAnObject(t *testing.T) {
	p := New()
	keep := func(example kruntime.Object) any {
		got, err := p.Transform(fresh(example))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	versioned := func(version string) *corev1.ConfigMap {
		cm := configMap()
		cm.ResourceVersion = version
		return cm
	}
	first := keep(versioned("1"))
	if keep(versioned("1")) != first {
		t.Error("two copies of one version")
	}
	if second := keep(versioned("2")); second == first || second.(*corev1.ConfigMap).ResourceVersion != "2" {
		t.Errorf("another version became %v", second)
	}
	// One version can have several forms.
	native := versioned("1")
	native.Namespace = "default"
	if got := keep(native); got == first || got.(*corev1.ConfigMap).Namespace != "default" {
		t.Errorf("the object with the names of its space became %v", got)
	}
	partial := &metav1.PartialObjectMetadata{ObjectMeta: versioned("1").ObjectMeta}
	if got := keep(partial); reflect.TypeOf(got) != reflect.TypeOf(partial) {
		t.Errorf("an object of type %T became %T", partial, got)
	}
	nameless := &corev1.Event{Reason: "R"}
	if keep(nameless) == keep(nameless) {
		t.Error("objects that are not stored are one")
	}
	secret := &corev1.Secret{ObjectMeta: objectMeta()}
	if keep(secret) == keep(secret) {
		t.Error("the pool remembers secrets")
	}
	runtime.KeepAlive(first)
}

// TestInformersListOneAfterTheOther: informers have one copy of an object however many others
// are listed in between, each in its own form, and the pool keeps none that no informer has.
func TestInformersListOneAfterTheOther(t *testing.T) {
	const many = 3000
	p := New()
	informed := func(uid, form string) any {
		cm := configMap()
		cm.UID, cm.Namespace = types.UID(uid), form
		got, err := p.Transform(fresh(cm))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	list := func(form string) []any {
		all := make([]any, 0, many)
		for i := range many {
			all = append(all, informed(fmt.Sprint("uid-", i), form))
		}
		return all
	}
	whole, part := list("whole"), list("part")
	for form, first := range map[string][]any{"whole": whole, "part": part} {
		for i, again := range list(form) {
			if again != first[i] {
				t.Fatalf("form %s has two copies of object %d", form, i)
			}
		}
	}
	runtime.KeepAlive(whole)
	runtime.KeepAlive(part)
	whole, part = nil, nil
	deadline := time.Now().Add(time.Minute)
	for i := 0; len(p.objects.refs) >= many; i++ { // it looks when others come
		if i%firstSweep == 0 {
			runtime.GC()
		}
		informed(fmt.Sprint("another-", i), "whole")
		if time.Now().After(deadline) {
			t.Fatalf("it remembers %d objects, which nobody has", len(p.objects.refs))
		}
	}
}

func BenchmarkTransform(b *testing.B) {
	pod := &corev1.Pod{ObjectMeta: objectMeta(), Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"a": "b"},
		Containers: []corev1.Container{{Name: "c", Image: "image", Args: []string{"x", "x"},
			Env: make([]corev1.EnvVar, 10), VolumeMounts: make([]corev1.VolumeMount, 3)}},
		Volumes: make([]corev1.Volume, 3), Tolerations: make([]corev1.Toleration, 3),
	}}
	for name, example := range map[string]kruntime.Object{"configmap": configMap(), "pod": pod} {
		b.Run(name, func(b *testing.B) {
			p := New()
			obj := fresh(example)
			if _, err := p.Transform(obj); err != nil {
				b.Fatal(err)
			}
			again := fresh(example)
			b.ReportAllocs()
			for b.Loop() {
				if got, _ := p.Transform(again); got != any(obj) {
					b.Fatal("not interned")
				}
			}
		})
	}
}
