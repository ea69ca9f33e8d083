package interning

import (
	"encoding/json"
	"hash/maphash"
	"reflect"
	"runtime"
	"sync"
	"weak"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// whole are values of one type that are shared as they are, with all that is in
// them. It keeps none of them: what no cache has any more is gone.
type whole[T any] struct {
	mu sync.Mutex
	of map[uint64][]weak.Pointer[T] // by hash
}

// known returns the value that is known by now and says the same, or v, which
// is known from now on.
func (s *whole[T]) known(seed maphash.Seed, v *T) *T {
	text, err := json.Marshal(v)
	if err != nil {
		return v
	}
	at := maphash.Bytes(seed, text)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.of[at] {
		if has := w.Value(); has != nil && (has == v || reflect.DeepEqual(has, v)) {
			return has
		}
	}
	if s.of == nil {
		s.of = map[uint64][]weak.Pointer[T]{}
	}
	s.of[at] = append(s.of[at], weak.Make(v))
	runtime.AddCleanup(v, s.forget, at)
	return v
}

// forget drops those that are gone.
func (s *whole[T]) forget(at uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []weak.Pointer[T]
	for _, w := range s.of[at] {
		if w.Value() != nil {
			left = append(left, w)
		}
	}
	if s.of[at] = left; len(left) == 0 {
		delete(s.of, at)
	}
}

// schemas are those of definitions, which are most of what a definition is, and
// the same in all tenants that run the same operator. A cache keeps one for
// every change of the definition's status, too.
type schemas struct {
	internal whole[apiextensions.JSONSchemaProps]
	external whole[apiextensionsv1.JSONSchemaProps]
}

// walkerOfSchema is the walker of a pointer to a schema, nil for other types.
func walkerOfSchema(t reflect.Type) walker {
	switch t {
	case reflect.TypeFor[*apiextensions.JSONSchemaProps]():
		return func(p *Pool, v reflect.Value) { share(p, &p.schemas.internal, v) }
	case reflect.TypeFor[*apiextensionsv1.JSONSchemaProps]():
		return func(p *Pool, v reflect.Value) { share(p, &p.schemas.external, v) }
	}
	return nil
}

// ofSchemas tells whether values of a type lead to schemas.
func ofSchemas(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[apiextensions.CustomResourceDefinitionVersion](), reflect.TypeFor[apiextensionsv1.CustomResourceDefinitionVersion](),
		reflect.TypeFor[apiextensions.JSONSchemaProps](), reflect.TypeFor[apiextensionsv1.JSONSchemaProps]():
		return true
	}
	return false
}

func share[T any](p *Pool, s *whole[T], v reflect.Value) {
	if v.IsNil() {
		return
	}
	if has := s.known(p.seed, v.Interface().(*T)); has != v.Interface() {
		v.Set(reflect.ValueOf(has))
	}
}
