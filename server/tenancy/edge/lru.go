package edge

import (
	"container/list"
	"sync"
)

// lruCache caches values up to a total size. It evicts the least recently used.
type lruCache[V any] struct {
	max int

	mu    sync.Mutex
	size  int
	order list.List // of *lruEntry[V], the last used first
	known map[string]*list.Element
}

type lruEntry[V any] struct {
	key   string
	value V
	size  int
}

// get finds a cached value.
func (b *lruCache[V]) get(key string) (V, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.known[key]
	if !ok {
		var none V
		return none, false
	}
	b.order.MoveToFront(at)
	return at.Value.(*lruEntry[V]).value, true
}

// put caches a value, unless it alone exceeds the total size.
func (b *lruCache[V]) put(key string, value V, size int) {
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
	b.known[key] = b.order.PushFront(&lruEntry[V]{key: key, value: value, size: size})
	b.size += size
	for b.size > b.max {
		b.drop(b.order.Back())
	}
}

func (b *lruCache[V]) drop(at *list.Element) {
	r := b.order.Remove(at).(*lruEntry[V])
	delete(b.known, r.key)
	b.size -= r.size
}
