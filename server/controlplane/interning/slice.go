package interning

import (
	"hash/maphash"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// makeSliceWalker interns what the elements of a slice say, and the slice if it
// is short: a longer one, as that of containers, is seldom equal to another and
// takes long to compare.
func makeSliceWalker(t reflect.Type, elem walker) walker {
	size := int(t.Elem().Size())
	if ofSchemas(t.Elem()) {
		size = sliceLength + 1 // the pool keeps slices, and keeps no schemas
	}
	return func(p *Pool, v reflect.Value) {
		n := v.Len()
		if n == 0 {
			return // nil and empty are different
		}
		for i := range n {
			elem(p, v.Index(i))
		}
		if n*size > sliceLength {
			return
		}
		// Who appends to a slice of an object that is not his own writes
		// behind its end. There must be nothing.
		v.Set(v.Slice3(0, n, n))
		v.Set(reflect.ValueOf(p.knownSlice(p.hash(uint64(size), v), v.Interface())))
	}
}

// knownSlice is known for slices, the hash of which is given.
func (p *Pool) knownSlice(at uint64, s any) any {
	place := &p.slices[at%slicePlaces]
	if has := place.Load(); has != nil && sameSlice(*has, s) {
		return *has
	}
	kept := s // so that nothing is allocated for what is known
	place.Store(&kept)
	return s
}

// sameSlice tells whether two slices are of one type and say the same.
func sameSlice(a, b any) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.DeepEqual(a, b)
}

// hash is the same for equal values. It looks at strings outside of maps, and at
// what tells managed fields, which were shared before, apart.
func (p *Pool) hash(sum uint64, v reflect.Value) uint64 {
	switch v.Kind() {
	case reflect.Pointer:
		switch at := v.Interface().(type) {
		case *metav1.FieldsV1:
			return sum*31 + uint64(v.Pointer())
		case *metav1.Time:
			if at != nil {
				return sum*31 + uint64(at.Unix())
			}
		}
	case reflect.String:
		return sum*31 + maphash.String(p.seed, v.String())
	case reflect.Slice:
		for i := range v.Len() {
			sum = p.hash(sum, v.Index(i))
		}
		return sum*31 + uint64(v.Len())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanInterface() {
				sum = p.hash(sum, f)
			}
		}
	}
	return sum
}
