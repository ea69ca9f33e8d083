package serving

import (
	"context"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// continued is a watch of a tenant that begins in the cache, and goes on with what the
// datastore says once the tenant has left the cache.
type continued struct {
	tenant string // "" for all of them
	// left is closed when the tenant leaves, before the cache sees its objects go.
	left chan struct{}
	// again watches the datastore from a revision on.
	again func(from string) (watch.Interface, error)
	// bookmarks are for the client.
	bookmarks bool
	// reached is the revision of the last event, "" until it is one from which a watch
	// can go on.
	reached string

	out  chan watch.Event
	stop chan struct{}
	once sync.Once
}

// watchTenant watches a tenant in the cache, if that has held it since the revision from
// which the watch is asked, and in the datastore otherwise.
func (g *grouped) watchTenant(
	ctx context.Context, tenant, key string, opts storage.ListOptions,
) (watch.Interface, error) {
	from, err := g.Versioner().ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &continued{
		tenant: tenant, left: make(chan struct{}), bookmarks: opts.Predicate.AllowWatchBookmarks,
		out: make(chan watch.Event), stop: make(chan struct{}),
	}
	if !g.held.follow(w, int64(from)) { //nolint:gosec // revisions of etcd are signed
		return g.all.Watch(ctx, key, opts)
	}
	w.again = func(from string) (watch.Interface, error) {
		rest := opts
		rest.ResourceVersion, rest.ResourceVersionMatch, rest.SendInitialEvents = from, "", nil
		return g.all.Watch(ctx, key, rest)
	}
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if from > 0 && !initial {
		w.reached = opts.ResourceVersion
	}
	inCache := opts
	// With bookmarks the revision that was reached does not become too old.
	inCache.Predicate.AllowWatchBookmarks = true
	first, err := g.Interface.Watch(ctx, key, inCache)
	if err != nil {
		g.held.forget(w)
		return nil, err
	}
	go func() {
		defer close(w.out)
		defer g.held.forget(w)
		w.run(first)
	}()
	return w, nil
}

func (w *continued) run(first watch.Interface) {
	if !w.copy(first, w.left) || w.reached == "" {
		return // without a revision the client lists again
	}
	rest, err := w.again(w.reached)
	if err != nil {
		return
	}
	w.copy(rest, nil)
}

// copy hands events on. It returns true once the tenant has left.
func (w *continued) copy(from watch.Interface, left <-chan struct{}) bool {
	defer from.Stop()
	for {
		select {
		case <-w.stop:
			return false
		case <-left:
			return true
		case e, ok := <-from.ResultChan():
			switch {
			case !ok:
				return false
			case closed(left):
				return true // e can be what the cache sees go
			case !w.send(e):
				return false
			}
		}
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func (w *continued) send(e watch.Event) bool {
	if e.Type == watch.Bookmark || w.reached != "" {
		w.reach(e)
	}
	if e.Type == watch.Bookmark && !w.bookmarks {
		return true
	}
	select {
	case w.out <- e:
		return true
	case <-w.stop:
		return false
	}
}

// reach remembers the revision of an event.
func (w *continued) reach(e watch.Event) {
	o, err := meta.CommonAccessor(e.Object)
	if err != nil || e.Type == watch.Error {
		return
	}
	rev, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if before, _ := strconv.ParseUint(w.reached, 10, 64); err == nil && rev > before {
		w.reached = o.GetResourceVersion()
	}
}

// Stop implements watch.Interface.
func (w *continued) Stop() { w.once.Do(func() { close(w.stop) }) }

// ResultChan implements watch.Interface.
func (w *continued) ResultChan() <-chan watch.Event { return w.out }
