package edge

import (
	"container/list"
	"sync"
)

// bounded remembers values up to a total size, and forgets those first that
// were not asked for the longest time.
type bounded[V any] struct {
	max int

	mu    sync.Mutex
	size  int
	order list.List // of *remembered[V], the last used first
	known map[string]*list.Element
}

type remembered[V any] struct {
	key   string
	value V
	size  int
}

// get finds a value.
func (b *bounded[V]) get(key string) (V, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.known[key]
	if !ok {
		var none V
		return none, false
	}
	b.order.MoveToFront(at)
	return at.Value.(*remembered[V]).value, true
}

// put remembers a value, unless it alone is larger than all may be.
func (b *bounded[V]) put(key string, value V, size int) {
	size += len(key)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = map[string]*list.Element{}
	}
	if at, ok := b.known[key]; ok {
		b.drop(at)
	}
	if size > b.max {
		return
	}
	b.known[key] = b.order.PushFront(&remembered[V]{key: key, value: value, size: size})
	b.size += size
	for b.size > b.max {
		b.drop(b.order.Back())
	}
}

func (b *bounded[V]) drop(at *list.Element) {
	r := b.order.Remove(at).(*remembered[V])
	delete(b.known, r.key)
	b.size -= r.size
}
