package interning

import (
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The slots of each table, powers of two, and the largest value in it.
const (
	shortSlots, shortLength = 1 << 12, 128
	longSlots, longLength   = 1 << 8, 8 << 10
	fieldsSlots             = 1 << 9
	mapSlots, mapEntries    = 1 << 10, 8
)

// Pool remembers values. It is safe for concurrent use.
type Pool struct {
	seed    maphash.Seed
	short   [shortSlots]atomic.Pointer[string]
	long    [longSlots]atomic.Pointer[string]
	fields  [fieldsSlots]atomic.Pointer[metav1.FieldsV1]
	maps    [mapSlots]atomic.Pointer[map[string]string]
	objects objects
	schemas schemas
	walkers sync.Map // of walker, by reflect.Type
}

// New makes an empty pool.
func New() *Pool { return &Pool{seed: maphash.MakeSeed()} }

// string returns the interned string that is equal to s. It is s itself, and
// found is false, if the pool had none; the pool remembers s then, unless s is
// too long.
func (p *Pool) string(s string) (interned string, found bool) {
	if len(s) == 0 || len(s) > longLength {
		return s, false
	}
	hash := maphash.String(p.seed, s)
	slot := &p.long[hash%longSlots]
	if len(s) <= shortLength {
		slot = &p.short[hash%shortSlots]
	}
	if interned := slot.Load(); interned != nil && *interned == s {
		return *interned, true
	}
	copied := s // only a new value escapes to the heap
	slot.Store(&copied)
	return s, false
}

// stringMap returns an equal map. It is the interned one if the pool has it,
// else a new one, which the pool remembers unless it is too large.
func (p *Pool) stringMap(m map[string]string) map[string]string {
	hash, size := p.hashMap(m)
	slot := &p.maps[hash%mapSlots]
	if interned := slot.Load(); interned != nil && maps.Equal(*interned, m) {
		return *interned
	}
	out := make(map[string]string, len(m))
	for key, value := range m {
		key, _ = p.string(key)
		out[key], _ = p.string(value)
	}
	if len(m) > mapEntries || size > longLength {
		return out
	}
	copied := out // only a map that is remembered escapes to the heap
	slot.Store(&copied)
	return out
}

// hashMap is the same for equal maps. The size is the length of all keys and
// values.
func (p *Pool) hashMap(m map[string]string) (hash uint64, size int) {
	for key, value := range m {
		// The sum does not depend on the order.
		hash += maphash.String(p.seed, key)*31 ^ maphash.String(p.seed, value)
		size += len(key) + len(value)
	}
	return hash, size
}

// fieldSet is string for managed fields.
func (p *Pool) fieldSet(f *metav1.FieldsV1) (interned *metav1.FieldsV1, found bool) {
	raw := f.GetRawBytes()
	if f == nil || len(raw) > longLength {
		return f, false
	}
	hash := maphash.Bytes(p.seed, raw)
	slot := &p.fields[hash%fieldsSlots]
	if interned := slot.Load(); interned != nil && interned.Equal(*f) {
		return interned, true
	}
	slot.Store(f)
	return f, false
}
