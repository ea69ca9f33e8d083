package interning

import (
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The places of a pool, powers of two, and the length of what is in them.
const (
	shortPlaces, shortLength = 1 << 12, 128
	longPlaces, longLength   = 1 << 8, 8 << 10
	fieldsPlaces             = 1 << 9
	mapPlaces, mapEntries    = 1 << 10, 8
	objectPlaces             = 1 << 11
	slicePlaces, sliceLength = 1 << 9, 512
)

// Pool remembers values. It is safe for concurrent use.
type Pool struct {
	seed    maphash.Seed
	short   [shortPlaces]atomic.Pointer[string]
	long    [longPlaces]atomic.Pointer[string]
	fields  [fieldsPlaces]atomic.Pointer[metav1.FieldsV1]
	maps    [mapPlaces]atomic.Pointer[map[string]string]
	objects [objectPlaces]atomic.Pointer[any]
	slices  [slicePlaces]atomic.Pointer[any]
	schemas schemas
	walkers sync.Map // of walker, by reflect.Type
}

// New makes an empty pool.
func New() *Pool { return &Pool{seed: maphash.MakeSeed()} }

// known returns the string that the pool has of this value, and false if it
// had none and has s from now on.
func (p *Pool) known(s string) (string, bool) {
	if len(s) == 0 || len(s) > longLength {
		return s, false
	}
	at := maphash.String(p.seed, s)
	place := &p.long[at%longPlaces]
	if len(s) <= shortLength {
		place = &p.short[at%shortPlaces]
	}
	if has := place.Load(); has != nil && *has == s {
		return *has, true
	}
	kept := s // so that nothing is allocated for what is known
	place.Store(&kept)
	return s, false
}

// knownMap returns a map that says the same. It is the pool's if that had one,
// else a new one that the pool has from now on, unless it is too large.
func (p *Pool) knownMap(m map[string]string) map[string]string {
	at, size := p.hashOf(m)
	place := &p.maps[at%mapPlaces]
	if has := place.Load(); has != nil && maps.Equal(*has, m) {
		return *has
	}
	out := make(map[string]string, len(m))
	for key, value := range m {
		key, _ = p.known(key)
		out[key], _ = p.known(value)
	}
	if len(m) > mapEntries || size > longLength {
		return out
	}
	kept := out // so that nothing is allocated for what has no place
	place.Store(&kept)
	return out
}

// hashOf is the same for maps that say the same. The size is the length of that.
func (p *Pool) hashOf(m map[string]string) (at uint64, size int) {
	for key, value := range m {
		// The sum does not depend on the order.
		at += maphash.String(p.seed, key)*31 ^ maphash.String(p.seed, value)
		size += len(key) + len(value)
	}
	return at, size
}

// knownFields is known for managed fields.
func (p *Pool) knownFields(f *metav1.FieldsV1) (*metav1.FieldsV1, bool) {
	raw := f.GetRawBytes()
	if f == nil || len(raw) > longLength {
		return f, false
	}
	at := maphash.Bytes(p.seed, raw)
	place := &p.fields[at%fieldsPlaces]
	if has := place.Load(); has != nil && has.Equal(*f) {
		return has, true
	}
	place.Store(f)
	return f, false
}
