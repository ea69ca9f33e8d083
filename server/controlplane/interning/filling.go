package interning

import (
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// FillingFor is how long caches may take until lists have filled them.
	FillingFor = 5 * time.Minute
	// fillingValues is how many values are remembered meanwhile, those of more
	// than 10,000 idle tenants. A value takes some 40 bytes beside itself.
	fillingValues = 1 << 20
	fillingShards = 1 << 4 // a power of two
)

// filling is what a pool has seen since lists began to fill caches. These come
// one after the other, and each has everything: a value has long lost its place
// in the pool when it comes again.
type filling struct {
	values  int64 // for which there was room
	strings table[string]
	maps    table[map[string]string]
	fields  table[*metav1.FieldsV1]
	slices  table[any]
	objects table[any]
}

// Fill has the pool remember all that it sees for some time, or until Forget is
// called. It is to be called before caches are filled by lists, with FillingFor,
// and again when that is about to end: the last call counts.
func (p *Pool) Fill(d time.Duration) {
	p.end.Lock()
	defer p.end.Unlock()
	if p.ends != nil {
		p.ends.Stop()
	}
	if p.filling.Load() == nil {
		p.filling.Store(newFilling(fillingValues))
	}
	// Whoever has the timer has what the function refers to, also afterwards.
	p.ends = time.AfterFunc(d, func() { p.filling.Store(nil) })
}

// newFilling has room for a number of values.
func newFilling(values int64) *filling {
	room := &atomic.Int64{}
	room.Store(values)
	f := &filling{values: values}
	f.strings.room, f.maps.room, f.fields.room, f.slices.room, f.objects.room = room, room, room, room, room
	return f
}

// table has values by their hashes. The last one with a hash stays.
type table[T any] struct {
	room   *atomic.Int64 // for new ones
	shards [fillingShards]struct {
		mu sync.Mutex
		of map[uint64]T
	}
}

// load returns what has this hash.
func (t *table[T]) load(at uint64) (v T, ok bool) {
	s := &t.shards[at%fillingShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok = s.of[at]
	return v, ok
}

// store remembers a value. It tells whether there was room.
func (t *table[T]) store(at uint64, v T) bool {
	s := &t.shards[at%fillingShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.of[at]; !there && t.room.Add(-1) < 0 {
		return false
	}
	if s.of == nil {
		s.of = map[uint64]T{}
	}
	s.of[at] = v
	return true
}

// Remembered is how many values the pool remembers while lists fill caches. At
// other times it is none, and filling is false.
func (p *Pool) Remembered() (values int64, filling bool) {
	f := p.filling.Load()
	if f == nil {
		return 0, false
	}
	return f.values - max(0, f.strings.room.Load()), true
}
