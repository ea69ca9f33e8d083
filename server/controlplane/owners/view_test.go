package owners

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// view knows a kind in namespaces and one without.
func view() *View {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("PersistentVolume"), meta.RESTScopeRoot)
	m.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	return New(m)
}

func owner(kind, name, uid string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: kind, Name: name, UID: types.UID(uid)}
}

func mapOf(namespace string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m", UID: "m-uid",
		ResourceVersion: "7", Finalizers: []string{"f"}, OwnerReferences: owners}}
}

// No object is linked with one of another space, whatever it names.
func TestOwnersAreOfOneSpace(t *testing.T) {
	v := view()
	for name, c := range map[string]struct {
		obj  *corev1.ConfigMap
		uid  string
		want []metav1.OwnerReference
	}{
		"of the system": {mapOf("default", owner("ConfigMap", "o", "o-uid")), "m-uid",
			[]metav1.OwnerReference{owner("ConfigMap", "o", "o-uid")}},
		"by the UID of something else": {mapOf("default.t1", owner("ConfigMap", "o", "o-uid")), "t1/m-uid",
			[]metav1.OwnerReference{owner("ConfigMap", "o", "t1/o-uid")}},
		"without a namespace": {mapOf("default.t1", owner("PersistentVolume", "p.t1.tenant", "p-uid")), "t1/m-uid",
			[]metav1.OwnerReference{owner("PersistentVolume", "p.t1.tenant", "t1/p-uid")}},
		"a namespace": {mapOf("default.t1", owner("Namespace", "default.t1", "n-uid")), "t1/m-uid",
			[]metav1.OwnerReference{owner("Namespace", "default.t1", "t1/n-uid")}},
		"of the system by name": {mapOf("default.t1", owner("PersistentVolume", "p", "p-uid"),
			owner("Namespace", "default", "n-uid"), owner("ConfigMap", "o", "o-uid")), "t1/m-uid",
			[]metav1.OwnerReference{owner("ConfigMap", "o", "t1/o-uid")}},
		"of another tenant by name": {mapOf("default.t1", owner("PersistentVolume", "p.t2.tenant", "p-uid")),
			"t1/m-uid", []metav1.OwnerReference{}},
		"of a tenant, for the system": {mapOf("default", owner("PersistentVolume", "p.t2.tenant", "p-uid")), "m-uid",
			[]metav1.OwnerReference{}},
		"of a kind that nobody knows": {mapOf("default.t1", owner("Foo", "f", "f-uid")), "t1/m-uid",
			[]metav1.OwnerReference{owner("Foo", "f", "t1/f-uid")}},
		"of a name like another space's": {mapOf("default.t1", owner("ConfigMap", "o.t2.tenant", "o-uid")), "t1/m-uid",
			[]metav1.OwnerReference{owner("ConfigMap", "o.t2.tenant", "t1/o-uid")}},
	} {
		before := c.obj.DeepCopy()
		m, err := meta.Accessor(v.object(configMaps.GroupResource(), c.obj))
		if err != nil {
			t.Fatal(err)
		}
		if string(m.GetUID()) != c.uid || !reflect.DeepEqual(m.GetOwnerReferences(), c.want) {
			t.Errorf("%s: %s, %+v", name, m.GetUID(), m.GetOwnerReferences())
		}
		if m.GetResourceVersion() != "7" || len(m.GetFinalizers()) != 1 || m.GetNamespace() != c.obj.Namespace {
			t.Errorf("%s: lost something: %+v", name, m)
		}
		if !reflect.DeepEqual(before, c.obj) {
			t.Errorf("%s: the object of the informer was changed", name)
		}
	}
	last := v.object(configMaps.GroupResource(), cache.DeletedFinalStateUnknown{Key: "k", Obj: mapOf("default.t1")})
	if obj, ok := last.(cache.DeletedFinalStateUnknown); !ok || obj.Obj.(metav1.Object).GetUID() != "t1/m-uid" {
		t.Errorf("the last state: %+v", last)
	}
}

// written records what reaches the API.
type written struct {
	metadata.Getter
	namespace string
	uid       types.UID
	patch     string
}

func (w *written) Resource(schema.GroupVersionResource) metadata.Getter { return w }

func (w *written) Namespace(namespace string) metadata.ResourceInterface {
	w.namespace = namespace
	return w
}

func (w *written) Get(
	context.Context, string, metav1.GetOptions, ...string,
) (*metav1.PartialObjectMetadata, error) {
	return &metav1.PartialObjectMetadata{ObjectMeta: mapOf(w.namespace, owner("ConfigMap", "o", "o-uid"),
		owner("PersistentVolume", "p", "p-uid")).ObjectMeta}, nil
}

func (w *written) Delete(_ context.Context, _ string, o metav1.DeleteOptions, _ ...string) error {
	w.uid = *o.Preconditions.UID
	return nil
}

func (w *written) Patch(
	_ context.Context, _ string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string,
) (*metav1.PartialObjectMetadata, error) {
	w.patch = string(data)
	return &metav1.PartialObjectMetadata{ObjectMeta: mapOf(w.namespace).ObjectMeta}, nil
}

// The API never sees a UID of the graph, the collector no other.
func TestTheAPIHasItsOwnUIDs(t *testing.T) {
	api := &written{}
	maps := view().Client(api).Resource(configMaps).Namespace("default.t1")
	got, err := maps.Get(t.Context(), "m", metav1.GetOptions{})
	if err != nil || got.UID != "t1/m-uid" || got.OwnerReferences[0].UID != "t1/o-uid" ||
		got.OwnerReferences[1].UID != "p-uid" {
		t.Errorf("got: %+v, %v", got, err)
	}
	if err := maps.Delete(t.Context(), "m",
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("t1/m-uid")}); err != nil ||
		api.uid != "m-uid" {
		t.Errorf("deleted %s, %v", api.uid, err)
	}
	answer, err := maps.Patch(t.Context(), "m", types.StrategicMergePatchType, []byte(`{"metadata":{"uid":"t1/m-uid",`+
		`"ownerReferences":[{"$patch":"delete","uid":"t1/o-uid"},{"uid":"p-uid","blockOwnerDeletion":false}]}}`),
		metav1.PatchOptions{})
	var sent, want any
	if err != nil || answer.UID != "t1/m-uid" || json.Unmarshal([]byte(api.patch), &sent) != nil ||
		json.Unmarshal([]byte(`{"metadata":{"uid":"m-uid","ownerReferences":[{"$patch":"delete","uid":"o-uid"},`+
			`{"uid":"p-uid","blockOwnerDeletion":false}]}}`), &want) != nil ||
		!reflect.DeepEqual(sent, want) {
		t.Errorf("patched with %s, answered %+v, %v", api.patch, answer, err)
	}
	if got, err := view().Client(&written{}).Resource(configMaps).Namespace("default").Get(t.Context(), "m",
		metav1.GetOptions{}); err != nil || got.UID != "m-uid" || got.OwnerReferences[0].UID != "o-uid" {
		t.Errorf("of the system: %+v, %v", got, err)
	}
}

// Events are about the object that there is.
func TestEventsHaveTheUIDsOfTheAPI(t *testing.T) {
	e := restored(&corev1.Event{InvolvedObject: corev1.ObjectReference{UID: "t1/m-uid"},
		Message: "ownerRef [v1/ConfigMap, namespace: a, name: o, uid: t1/o-uid] does not exist"})
	if e.InvolvedObject.UID != "m-uid" || e.Message != "ownerRef [v1/ConfigMap, namespace: a, name: o, uid: o-uid] "+
		"does not exist" {
		t.Errorf("%s: %s", e.InvolvedObject.UID, e.Message)
	}
}
