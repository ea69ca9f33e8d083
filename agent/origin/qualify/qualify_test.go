package qualify

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/a4s-io/a4s/internal/references"
)

// TestEveryNamespaceIsMapped fills each field of each kind of Kubernetes whose name says
// that it is a namespace, and finds those that keep the name that they have in their
// partition: a node would follow it to the home partition.
func TestEveryNamespaceIsMapped(t *testing.T) {
	// By kind, or by the end of the path.
	kept := map[string]string{
		"VolumeAttachment":               "a node reads the status",
		"IPAddress":                      "read by no node",
		"FlowSchema":                     "read by no node",
		"jobTemplate.metadata.namespace": "the metadata of a template",
		"configMap.namespace":            "configuration of kubelets by the API, which is gone",
		"storageos.volumeNamespace":      "a name in a storage system outside of the cluster",
		"parameters.namespace":           "IngressClasses are read by no node",
		"spec.metadata.namespace":        "the metadata of a template",
		"template.metadata.namespace": "the metadata of a template, also of claims: " +
			"controllers take labels and annotations only",
		"volumeClaimTemplate.metadata.namespace":  "the metadata of a template",
		"volumeClaimTemplates.metadata.namespace": "the controller puts the namespace of the set",
		"subjects.namespace":                      "bindings are read by no node",
	}
	used := map[string]bool{}
	mapped := 0
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		if strings.HasSuffix(gvk.Kind, "List") || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		obj, ok := reflect.New(typ).Interface().(runtime.Object)
		if _, has := obj.(metav1.Object); !ok || !has || gvk.Group == metav1.GroupName || gvk.Group == "extensions" {
			continue
		}
		fill(reflect.ValueOf(obj).Elem(), nil)
		if err := To("tp2").Map(obj); err != nil {
			t.Fatal(err)
		}
		each(reflect.ValueOf(obj).Elem(), "", func(path, value string) {
			switch value {
			case "kube-system.tp2.system":
				mapped++
				return
			case "kube-system":
			default:
				return
			}
			for reason := range kept {
				if gvk.Kind == reason || strings.HasSuffix("."+path, "."+reason) {
					used[reason] = true
					return
				}
			}
			t.Errorf("%s: %s is still kube-system on the node", gvk, path)
		})
	}
	if mapped < 100 {
		t.Errorf("only %d fields were mapped", mapped)
	}
	for _, reason := range slices.Sorted(maps.Keys(kept)) {
		if !used[reason] {
			t.Errorf("no field %q is kept", reason)
		}
	}
}

// fill makes everything below a value, and calls each namespace kube-system.
func fill(v reflect.Value, above []reflect.Type) {
	switch v.Kind() {
	case reflect.Pointer:
		if slices.Contains(above, v.Type()) {
			return // a schema has schemas
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), append(above[:len(above):len(above)], v.Type()))
	case reflect.Slice:
		if slices.Contains(above, v.Type()) || v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), append(above[:len(above):len(above)], v.Type()))
	case reflect.Struct:
		t := v.Type()
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				continue
			}
			fill(v.Field(i), above)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if at := v.Field(i); strings.HasSuffix(strings.ToLower(name), "namespace") {
				if at.Kind() == reflect.Pointer {
					at = at.Elem()
				}
				if at.Kind() == reflect.String {
					at.SetString("kube-system")
				}
			}
		}
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() {
			v.SetString("x")
		}
	}
}

// each calls visit for each string below a value.
func each(v reflect.Value, path string, visit func(path, value string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			each(v.Elem(), path, visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			each(v.Index(i), path, visit)
		}
	case reflect.Struct:
		t := v.Type()
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			at := path
			if name != "" {
				at = strings.TrimPrefix(path+"."+name, ".")
			}
			if t.Field(i).IsExported() {
				each(v.Field(i), at, visit)
			}
		}
	case reflect.String:
		visit(path, v.String())
	}
}

// TestRowsOfEachOperation maps what rows of each operation name, there and back.
func TestRowsOfEachOperation(t *testing.T) {
	const ns, onNode = "kube-system", "kube-system.tp2.system"
	volume := func(ns, name string) runtime.Object {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim",
				Namespace: ns, Name: "c"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					ISCSI: &corev1.ISCSIPersistentVolumeSource{SecretRef: &corev1.SecretReference{
						Namespace: ns, Name: "s"}},
					AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretNamespace: ptr.To(ns)}}}}
	}
	about := func(kind, version, ns, name string) runtime.Object {
		return &corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: kind, APIVersion: version, Namespace: ns,
			Name: name}}
	}
	claim := func(ns, volume string) runtime.Object {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns},
			Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume,
				DataSourceRef: &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "other",
					Namespace: ptr.To(ns)}}}
	}
	slice := func(ns string) runtime.Object {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: ns},
			Endpoints: []discoveryv1.Endpoint{{}, {TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: ns,
				Name: "p"}}}}
	}
	for name, tc := range map[string]struct{ there, here runtime.Object }{
		"a volume":          {volume(ns, "pv1"), volume(onNode, "pv1.tp2.system.tenant")},
		"a tenant's volume": {volume(ns, "pv1.t2.tenant"), volume(onNode, "pv1.t2.tenant")},
		"a claim":           {claim(ns, "pv1"), claim(onNode, "pv1.tp2.system.tenant")},
		"a tenant's claim":  {claim("default.t2", "pv1.t2.tenant"), claim("default.t2", "pv1.t2.tenant")},
		"targets":           {slice(ns), slice(onNode)},
		"about a pod":       {about("Pod", "v1", ns, "p"), about("Pod", "v1", onNode, "p")},
		"about a node":      {about("Node", "v1", "", "n"), about("Node", "v1", "", "n")},
		"about a namespace": {about("Namespace", "v1", "", ns), about("Namespace", "v1", "", onNode)},
		"about a volume": {about("PersistentVolume", "v1", "", "a"), about("PersistentVolume", "v1", "",
			"a.tp2.system.tenant")},
		"about another group": {about("Namespace", "x.io/v1", "", ns), about("Namespace", "x.io/v1", "", ns)},
		"about nothing":       {about("Namespace", "a/b/c", "", ns), about("Namespace", "a/b/c", "", ns)},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.there.DeepCopyObject()
			if err := To("tp2").Map(got); err != nil || !reflect.DeepEqual(got, tc.here) {
				t.Errorf("on the node it is %v (%v), want %v", got, err, tc.here)
			}
			if err := Of("tp2").Map(got); err != nil || !reflect.DeepEqual(got, tc.there) {
				t.Errorf("it comes back as %v (%v), want %v", got, err, tc.there)
			}
			if err := To("").Map(got); err != nil || !reflect.DeepEqual(got, tc.there) {
				t.Errorf("of home it is %v (%v), want %v", got, err, tc.there)
			}
		})
	}
}

// TestWhatCannotBeMapped is refused, rather than passed on with the names of another
// partition.
func TestWhatCannotBeMapped(t *testing.T) {
	for _, obj := range []runtime.Object{&metav1.PartialObjectMetadata{},
		&metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{}}}} {
		if To("tp2").Map(obj) == nil {
			t.Errorf("%T is mapped", obj)
		}
	}
	if err := To("tp2").Map(&metav1.Status{}); err != nil {
		t.Error(err)
	}
}

// TestRowsThatCount fails when an operation is added that nobody has decided about.
func TestRowsThatCount(t *testing.T) {
	left := map[references.Op]bool{references.Text: true, references.User: true, references.Group: true,
		references.Subject: true, references.NamespaceSelector: true, references.NamespaceLabels: true,
		references.Extra: true}
	rows := 0
	for _, r := range references.Rows() {
		if !left[r.Op] {
			rows++
		}
	}
	for _, fields := range fieldsOf() {
		rows -= len(fields)
	}
	if rows != 0 {
		t.Errorf("%d rows are neither mapped nor left alone", rows)
	}
}
