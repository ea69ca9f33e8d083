package admission

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// written is an object as it is and as it was before, in a version of the API,
// whose names people know. There is nothing of a custom resource.
type written struct {
	kind schema.GroupKind
	// now and was are structs of one type; was is empty for a new object.
	now, was reflect.Value
}

// writtenIn reads what a request writes; ok is false for a custom resource, all
// of which is the tenant's.
func writtenIn(attr admission.Attributes) (w written, ok bool, err error) {
	if _, custom := attr.GetObject().(*unstructured.Unstructured); custom {
		return w, false, nil
	}
	w.kind = attr.GetKind().GroupKind()
	if w.now, err = versioned(attr.GetObject(), w.kind); err != nil {
		return w, false, err
	}
	w.was = reflect.Zero(w.now.Type())
	if old := attr.GetOldObject(); old != nil && !reflect.ValueOf(old).IsNil() {
		if w.was, err = versioned(old, w.kind); err != nil {
			return w, false, err
		}
		if w.was.Type() != w.now.Type() {
			return w, false, fmt.Errorf("the %s was a %s", w.kind.Kind, w.was.Type())
		}
	}
	return w, true, nil
}

// versioned is the struct of an object in the version that the API prefers. It
// shares its values with the object.
func versioned(obj runtime.Object, kind schema.GroupKind) (reflect.Value, error) {
	scheme := legacyscheme.Scheme
	if kind.Group == apiextensions.GroupName {
		scheme = apiextensionsserver.Scheme
	}
	for _, version := range scheme.PrioritizedVersionsForGroup(kind.Group) {
		gvk := version.WithKind(kind.Kind)
		if !scheme.Recognizes(gvk) {
			continue
		}
		if of, _, err := scheme.ObjectKinds(obj); err == nil && slices.Contains(of, gvk) {
			return reflect.ValueOf(obj).Elem(), nil
		}
		out, err := scheme.UnsafeConvertToVersion(obj, version)
		if err != nil {
			return reflect.Value{}, fmt.Errorf("reading the %s: %w", kind.Kind, err)
		}
		return reflect.ValueOf(out).Elem(), nil
	}
	return reflect.Value{}, fmt.Errorf("nothing is known of the kind %s", kind)
}

// checkKind looks at an object by the tables of fields, whatever it is: at what of
// it a tenant may write, and at priorities.
func checkKind(ctx context.Context, g *guard, tenant string, byTenant bool, attr admission.Attributes) error {
	groups := groupRules{guard: g, prioritized: g.groups}
	if !byTenant && !groups.prioritized[attr.GetKind().GroupKind()] {
		return nil
	}
	w, ok, err := writtenIn(attr)
	if err != nil || !ok {
		return err
	}
	if byTenant {
		fields, known := g.kinds.FieldsOf(w.kind.Group, w.kind.Kind)
		if !known {
			return fmt.Errorf("nothing is known of the kind %s", w.kind)
		}
		if err := checkFields(fields, w, attr.GetSubresource()); err != nil {
			return err
		}
		if pod, ok := w.now.Interface().(corev1.Pod); ok && attr.GetSubresource() == "status" {
			was, _ := w.was.Interface().(corev1.Pod)
			if err := checkConditions(&pod, &was); err != nil {
				return err
			}
		}
	}
	return groups.check(ctx, tenant, w)
}

// checkFields refuses changes of fields that are not the tenants'.
func checkFields(fields kinds.Fields, w written, subresource string) error {
	var refused error
	eachField(w.now, w.was, "", func(path string, now, was reflect.Value) {
		field, decided := fields.Field(path)
		switch {
		case refused != nil, decided && field.Why == "", field.Made && subresource != "status", same(now, was):
			return
		case !decided:
			field.Why = "nothing is known of it"
		}
		instead := ""
		if own := fields.Beside(path); len(own) > 0 {
			instead = "; change " + strings.Join(own, ", ")
		}
		refused = fmt.Errorf("%s is written by the system only, because %s%s", path, field.Why, instead)
	})
	return refused
}

// eachField calls visit for the fields of an object that the table of kinds
// decides about.
func eachField(now, was reflect.Value, of string, visit func(path string, now, was reflect.Value)) {
	for i := range now.NumField() {
		f := now.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Type == reflect.TypeFor[metav1.TypeMeta](), of == "" && f.Type == reflect.TypeFor[metav1.ObjectMeta]():
		case name == "" && f.Anonymous:
			eachField(now.Field(i), was.Field(i), of, visit)
		case of == "" && (name == "spec" || name == "status") && f.Type.Kind() == reflect.Struct:
			eachField(now.Field(i), was.Field(i), name+".", visit)
		default:
			visit(of+name, now.Field(i), was.Field(i))
		}
	}
}

// same reports whether two values say the same. What is there and says nothing
// is as if it were not.
func same(a, b reflect.Value) bool {
	return empty(a) && empty(b) || equality.Semantic.DeepEqual(a.Interface(), b.Interface())
}

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil() || v.Elem().Kind() == reflect.Struct && empty(v.Elem())
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		for i := range v.NumField() {
			if !empty(v.Field(i)) {
				return false
			}
		}
		return true
	default:
		return v.IsZero()
	}
}
