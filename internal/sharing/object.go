package sharing

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// walker shares what is in a value of one type. It is nil for types that have
// nothing to share.
type walker func(p *Pool, v reflect.Value)

// Object shares the strings of a typed object, a pointer to a struct. Nobody
// else may have the object yet. Objects without a type are left as they are.
func (p *Pool) Object(obj any) {
	if v := reflect.ValueOf(obj); v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() == reflect.Struct {
		p.walk(v.Elem())
	}
}

// Transform is Object for informers whose users do not ask who manages which
// field.
func (p *Pool) Transform(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil && accessor.GetManagedFields() != nil {
		accessor.SetManagedFields(nil)
	}
	p.Object(obj)
	return obj, nil
}

func (p *Pool) walk(v reflect.Value) {
	if w := p.walkerOf(v.Type()); w != nil {
		w(p, v)
	}
}

// walkerOf makes the walker of a type once. Types that contain themselves are
// walked by (*Pool).walk where they meet again.
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
		return walkFields
	}
	if above[t] {
		return (*Pool).walk
	}
	above[t] = true
	defer delete(above, t)
	switch t.Kind() {
	case reflect.String:
		return walkString
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
			return walkMap
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

func walkString(p *Pool, v reflect.Value) {
	if s, known := p.known(v.String()); known {
		v.SetString(s)
	}
}

// walkMap puts a shared map into the place of an equal one. It does not write
// to the one that is there.
func walkMap(p *Pool, v reflect.Value) {
	if v.Len() == 0 {
		return // nil and empty are different
	}
	m := p.knownMap(v.Convert(reflect.TypeFor[map[string]string]()).Interface().(map[string]string))
	v.Set(reflect.ValueOf(m).Convert(v.Type()))
}

func walkFields(p *Pool, v reflect.Value) {
	if f, known := p.knownFields(v.Interface().(*metav1.FieldsV1)); known {
		v.Set(reflect.ValueOf(f))
	}
}
