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

// Object interns the strings of a typed object, a pointer to a struct. Nobody
// else may have the object yet. Objects without a type are left as they are.
func (p *Pool) Object(obj any) {
	if isStruct(obj) {
		p.walk(reflect.ValueOf(obj).Elem())
	}
}

// isStruct tells whether a value is a pointer to a struct.
func isStruct(obj any) bool {
	v := reflect.ValueOf(obj)
	return v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() == reflect.Struct
}

// Transform is for informers whose users do not ask who manages which field.
// What several of them keep of one version of an object becomes one object.
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
	at := maphash.Comparable(p.seed, version{reflect.TypeOf(obj), string(accessor.GetUID()), accessor.GetResourceVersion()})
	// They may differ in more than the version: spaces have their own names
	// for the same object, and some informers keep a part.
	place := &p.objects[at%objectPlaces]
	if has := place.Load(); has != nil && reflect.DeepEqual(*has, obj) {
		return *has, nil
	}
	p.Object(obj)
	kept := obj // so that nothing is allocated for what is known
	place.Store(&kept)
	return obj, nil
}

// version is one of an object, in one form.
type version struct {
	form         reflect.Type
	uid, version string
}

// Forget lets go of the objects that Transform has seen, which may be old
// versions by now.
func (p *Pool) Forget() {
	for i := range p.objects {
		p.objects[i].Store(nil)
	}
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
	if w := walkerOfSchema(t); w != nil {
		return w
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
			return makeSliceWalker(t, elem)
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
