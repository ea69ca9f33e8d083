package apikinds

import (
	"fmt"
	"reflect"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// TestCopiesShareNothing: a deep copy says the same, and what it points to is its own.
func TestCopiesShareNothing(t *testing.T) {
	for name, typ := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			in := filled(t, typ, 1)
			out := in.DeepCopyObject()
			if !apiequality.Semantic.DeepEqual(in, out) {
				t.Errorf("the copy is\n%+v, was\n%+v", out, in)
			}
			places := map[uintptr]string{}
			walk(reflect.ValueOf(in), typ.Name(), func(at uintptr, path string) { places[at] = path })
			if len(places) < 10 {
				t.Errorf("found %d places in the object", len(places))
			}
			walk(reflect.ValueOf(out), typ.Name(), func(at uintptr, path string) {
				if was, ok := places[at]; ok {
					t.Errorf("%s of the copy is %s of the object", path, was)
				}
			})
			empty := reflect.New(typ).Interface().(stored)
			if out := empty.DeepCopyObject(); !reflect.DeepEqual(empty, out) {
				t.Errorf("a copy of nothing is %+v", out)
			}
		})
	}
}

// walk tells of each place that pointers, slices and maps point to. The inside of what other
// modules do not export can be shared: they never write to it.
func walk(v reflect.Value, path string, visit func(at uintptr, path string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Pointer(), path)
			walk(v.Elem(), path, visit)
		}
	case reflect.Slice:
		if v.Len() > 0 {
			visit(v.Pointer(), path)
		}
		for i := range v.Len() {
			walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i), visit)
		}
	case reflect.Map:
		if v.Len() > 0 {
			visit(v.Pointer(), path)
		}
		for _, k := range v.MapKeys() {
			walk(v.MapIndex(k), fmt.Sprintf("%s[%v]", path, k), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				walk(v.Field(i), path+"."+f.Name, visit)
			}
		}
	}
}
