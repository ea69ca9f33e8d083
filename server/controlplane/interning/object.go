package interning

import (
	"hash/maphash"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// walker interns what is in a value of one type. It is nil for types that have
// nothing to intern.
type walker func(p *Pool, v reflect.Value)

// Object interns the values in a typed object, a pointer to a struct. Nobody
// else may have the object yet. Unstructured objects stay as they are.
func (p *Pool) Object(obj any) {
	if isStruct(obj) {
		p.walk(reflect.ValueOf(obj).Elem())
	}
}

// isStruct reports whether a value is a pointer to a struct.
func isStruct(obj any) bool {
	v := reflect.ValueOf(obj)
	return v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() == reflect.Struct
}

// Transform is for informers whose users do not read managed fields: it drops
// these. Informers that have the same version of an object get the same copy.
func (p *Pool) Transform(obj any) (any, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil
	}
	if accessor.GetManagedFields() != nil {
		accessor.SetManagedFields(nil)
	}
	if _, secret := obj.(*corev1.Secret); secret || accessor.GetUID() == "" || !isStruct(obj) {
		p.Object(obj)
		return obj, nil
	}
	hash := maphash.Comparable(p.seed,
		version{reflect.TypeOf(obj), string(accessor.GetUID()), accessor.GetResourceVersion()})
	if interned := p.objects.find(hash, obj); interned != nil {
		return interned, nil
	}
	p.Object(obj)
	p.objects.add(hash, obj)
	return obj, nil
}

// version identifies one version of an object, as one Go type.
type version struct {
	goType       reflect.Type
	uid, version string
}

func (p *Pool) walk(v reflect.Value) {
	if w := p.walkerOf(v.Type()); w != nil {
		w(p, v)
	}
}

// walkerOf makes the walker of a type once. Where a type contains itself,
// (*Pool).walk walks it.
func (p *Pool) walkerOf(t reflect.Type) walker {
	if w, ok := p.walkers.Load(t); ok {
		return w.(walker)
	}
	w := makeWalker(t, map[reflect.Type]bool{})
	p.walkers.Store(t, w)
	return w
}

func makeWalker(t reflect.Type, above map[reflect.Type]bool) walker {
	if t == reflect.TypeFor[*metav1.FieldsV1]() {
		return internFields
	}
	if w := schemaWalker(t); w != nil {
		return w
	}
	if above[t] {
		return (*Pool).walk
	}
	above[t] = true
	defer delete(above, t)
	switch t.Kind() {
	case reflect.String:
		return internString
	case reflect.Struct:
		return makeStructWalker(t, above)
	case reflect.Pointer:
		if elem := makeWalker(t.Elem(), above); elem != nil {
			return func(p *Pool, v reflect.Value) {
				if !v.IsNil() {
					elem(p, v.Elem())
				}
			}
		}
	case reflect.Slice:
		if elem := makeWalker(t.Elem(), above); elem != nil {
			return func(p *Pool, v reflect.Value) {
				for i := range v.Len() {
					elem(p, v.Index(i))
				}
			}
		}
	case reflect.Map:
		if t.ConvertibleTo(reflect.TypeFor[map[string]string]()) {
			return internMap
		}
	}
	return nil
}

func makeStructWalker(t reflect.Type, above map[reflect.Type]bool) walker {
	type field struct {
		index int
		walk  walker
	}
	var fields []field
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			continue
		}
		if w := makeWalker(t.Field(i).Type, above); w != nil {
			fields = append(fields, field{i, w})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return func(p *Pool, v reflect.Value) {
		for _, f := range fields {
			f.walk(p, v.Field(f.index))
		}
	}
}

func internString(p *Pool, v reflect.Value) {
	if s, found := p.string(v.String()); found {
		v.SetString(s)
	}
}

// internMap replaces a map by the interned one. It does not write to the map,
// which others may have.
func internMap(p *Pool, v reflect.Value) {
	if v.Len() == 0 {
		return // nil and empty are different
	}
	m := p.stringMap(v.Convert(reflect.TypeFor[map[string]string]()).Interface().(map[string]string))
	v.Set(reflect.ValueOf(m).Convert(v.Type()))
}

func internFields(p *Pool, v reflect.Value) {
	if f, found := p.fieldSet(v.Interface().(*metav1.FieldsV1)); found {
		v.Set(reflect.ValueOf(f))
	}
}
