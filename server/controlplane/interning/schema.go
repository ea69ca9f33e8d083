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

// weakTable interns values of one type as a whole. Its references are weak: a
// value is gone when no cache has it any more.
type weakTable[T any] struct {
	mu     sync.Mutex
	values map[uint64][]weak.Pointer[T] // by hash
}

// intern returns the interned value that is equal to v, or v, which is
// interned from now on.
func (t *weakTable[T]) intern(seed maphash.Seed, v *T) *T {
	text, err := json.Marshal(v)
	if err != nil {
		return v
	}
	hash := maphash.Bytes(seed, text)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.values[hash] {
		if interned := w.Value(); interned != nil && (interned == v || reflect.DeepEqual(interned, v)) {
			return interned
		}
	}
	if t.values == nil {
		t.values = map[uint64][]weak.Pointer[T]{}
	}
	t.values[hash] = append(t.values[hash], weak.Make(v))
	runtime.AddCleanup(v, t.forget, hash)
	return v
}

// forget drops the references of a hash whose values are gone.
func (t *weakTable[T]) forget(hash uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var left []weak.Pointer[T]
	for _, w := range t.values[hash] {
		if w.Value() != nil {
			left = append(left, w)
		}
	}
	if t.values[hash] = left; len(left) == 0 {
		delete(t.values, hash)
	}
}

// schemas are those of CRDs. They are most of a CRD, and the same in all tenants
// with the same operator. Each change of a CRD's status brings another copy.
type schemas struct {
	internal weakTable[apiextensions.JSONSchemaProps]
	external weakTable[apiextensionsv1.JSONSchemaProps]
}

// schemaWalker is the walker of a pointer to a schema, nil for other types.
func schemaWalker(t reflect.Type) walker {
	switch t {
	case reflect.TypeFor[*apiextensions.JSONSchemaProps]():
		return func(p *Pool, v reflect.Value) { internSchema(p, &p.schemas.internal, v) }
	case reflect.TypeFor[*apiextensionsv1.JSONSchemaProps]():
		return func(p *Pool, v reflect.Value) { internSchema(p, &p.schemas.external, v) }
	}
	return nil
}

func internSchema[T any](p *Pool, t *weakTable[T], v reflect.Value) {
	if v.IsNil() {
		return
	}
	if interned := t.intern(p.seed, v.Interface().(*T)); interned != v.Interface() {
		v.Set(reflect.ValueOf(interned))
	}
}
