package serving

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
)

// older is a stream in the datastore that begins before the cache does, as those of all
// clients do when a server was started again. It ends when the cache can go on with it: each
// event would be read from the datastore for each client, for as long as the watch lasts.
type older struct {
	held    *held
	group   string
	reached int64

	from watch.Interface
	out  chan watch.Event
	stop chan struct{}
	once sync.Once
}

func (o *older) run() {
	defer close(o.out)
	defer o.from.Stop()
	for !o.held.goesOn(o.group, o.reached) {
		select {
		case <-o.stop:
			return
		case e, ok := <-o.from.ResultChan():
			if !ok || !o.take(e) {
				return
			}
		}
	}
}

// take hands an event on. It returns false at the end.
func (o *older) take(e watch.Event) bool {
	if obj, err := meta.CommonAccessor(e.Object); err == nil && e.Type != watch.Error {
		if rev, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64); err == nil {
			o.reached = max(o.reached, rev)
		}
	}
	select {
	case o.out <- e:
		return true
	case <-o.stop:
		return false
	}
}

// Stop implements watch.Interface.
func (o *older) Stop() { o.once.Do(func() { close(o.stop) }) }

// ResultChan implements watch.Interface.
func (o *older) ResultChan() <-chan watch.Event { return o.out }

// goesOn reports whether a stream from a revision on would come from the cache.
func (h *held) goesOn(group string, rev int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since(group, rev)
}
