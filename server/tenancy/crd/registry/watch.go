package registry

import (
	"context"
	"maps"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// shownWatch is the watch of a tenant's CRDs with those of the system
// that it is shown. What changes in the latter goes by the objects of several
// resources and has no version of its own: its events have the version that the
// tenant's own events have got to, so that a client that goes on from there
// misses none of them. What is shown it then gets by Visible.Misses.
type shownWatch struct {
	d      *store
	ctx    context.Context
	tenant string
	asked  storage.SelectionPredicate
	own    watch.Interface

	result chan watch.Event
	done   chan struct{}
	stop   sync.Once

	mu    sync.Mutex
	all   bool
	dirty map[string]struct{}
	wake  chan struct{}

	// What is below is run's. version is that of the last own event, shown
	// what the client has in its place of the system's: nil stands for one
	// that it did not ask for.
	version string
	shown   map[string]*apiextensions.CustomResourceDefinition
}

// Watch implements rest.Watcher.
func (d *store) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	tenant := viewer(ctx, "")
	if tenant == "" {
		return d.REST.Watch(ctx, options)
	}
	w := &shownWatch{
		d: d, ctx: ctx, tenant: tenant, asked: asked(options),
		result: make(chan watch.Event), done: make(chan struct{}), wake: make(chan struct{}, 1),
		dirty: map[string]struct{}{}, shown: map[string]*apiextensions.CustomResourceDefinition{},
	}
	// Before anything is read: what changes from now on wakes it.
	d.shown.add(w)
	from, initial := "", false
	if options != nil {
		from, initial = options.ResourceVersion, options.SendInitialEvents != nil && *options.SendInitialEvents
	}
	if from == "" || from == "0" {
		initial = initial || options == nil || options.SendInitialEvents == nil
	} else if w.version = from; !initial && d.shown.of.Misses(tenant, from) {
		d.shown.remove(w)
		return expired(), nil
	}
	own, err := d.REST.Watch(ctx, options)
	if err != nil {
		d.shown.remove(w)
		return nil, err
	}
	w.own = own
	go w.run(initial)
	return w, nil
}

// expired is a watch that has its client list again, as upstream's cache
// answers one that begins too early.
func expired() watch.Interface {
	ch := make(chan watch.Event, 1)
	status := apierrors.NewResourceExpired("what serves this tenant has changed since").Status()
	ch <- watch.Event{Type: watch.Error, Object: &status}
	close(ch)
	return watch.NewProxyWatcher(ch)
}

func (s *Shown) add(w *shownWatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches[w] = struct{}{}
}

func (s *Shown) remove(w *shownWatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watches, w)
}

// wakes tells the watch that a CRD has changed, or what serves its tenant.
func (w *shownWatch) wakes(r schema.GroupResource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Empty() {
		w.all = true
	} else {
		w.dirty[r.String()] = struct{}{}
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// ResultChan implements watch.Interface.
func (w *shownWatch) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *shownWatch) Stop() { w.stop.Do(func() { close(w.done) }) }

// run ends when the client has gone, the own watch has ended, or something
// cannot be read; then the client begins anew.
func (w *shownWatch) run(initial bool) {
	defer close(w.result)
	defer w.own.Stop()
	defer w.d.shown.remove(w)
	if !w.begin(initial) {
		return
	}
	for {
		select {
		case event, ok := <-w.own.ResultChan():
			if !ok || !w.ownEvent(event) {
				return
			}
		case <-w.wake:
			for name := range w.changed() {
				if !w.look(name) {
					return
				}
			}
		case <-w.done:
			return
		case <-w.ctx.Done():
			return
		}
	}
}

// begin finds out what the client has, or gives it to them.
func (w *shownWatch) begin(initial bool) bool {
	for _, name := range w.d.shown.of.Shown(w.tenant) {
		own, err := w.d.own(w.ctx, w.tenant, name)
		if err != nil {
			return false
		}
		if !w.d.shown.of.Shows(w.tenant, name, own != nil) {
			continue
		}
		crd, ok := w.read(name)
		if !ok {
			return false
		}
		if w.shown[name] = crd; initial && crd != nil && !w.send(watch.Added, crd) {
			return false
		}
	}
	return true
}

// changed is what has to be looked at.
func (w *shownWatch) changed() map[string]struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := w.dirty
	if w.all {
		for name := range w.shown {
			names[name] = struct{}{}
		}
		for _, name := range w.d.shown.of.Shown(w.tenant) {
			names[name] = struct{}{}
		}
	}
	w.all, w.dirty = false, map[string]struct{}{}
	return maps.Clone(names)
}

// read is a CRD of the system as it is shown, nil if it is not asked for.
func (w *shownWatch) read(name string) (crd *apiextensions.CustomResourceDefinition, ok bool) {
	crd, err := w.d.shared(w.ctx, w.tenant, name)
	if apierrors.IsNotFound(err) {
		return nil, true // that it has gone is told next
	}
	if err != nil {
		return nil, false
	}
	matches, err := selects(w.asked, w.tenant, crd)
	if err != nil {
		return nil, false
	}
	if !matches {
		return nil, true
	}
	return crd, true
}

// look finds out what is shown under a name now, and says what has changed.
func (w *shownWatch) look(name string) bool {
	own, err := w.d.own(w.ctx, w.tenant, name)
	if err != nil {
		return false
	}
	before, was := w.shown[name]
	if !w.d.shown.of.Shows(w.tenant, name, own != nil) {
		return !was || w.hide(name) && (own == nil || w.sendOwn(watch.Added, own))
	}
	if !was && own != nil && !w.sendOwn(watch.Deleted, own) {
		return false
	}
	now, ok := w.read(name)
	if !ok {
		return false
	}
	w.shown[name] = now
	switch {
	case before == nil && now == nil, before != nil && now != nil && before.ResourceVersion == now.ResourceVersion:
		return true
	case before == nil:
		return w.send(watch.Added, now)
	case now == nil:
		return w.send(watch.Deleted, before)
	}
	return w.send(watch.Modified, now)
}

// hide says that a CRD of the system is not shown any more.
func (w *shownWatch) hide(name string) bool {
	crd := w.shown[name]
	delete(w.shown, name)
	return crd == nil || w.send(watch.Deleted, crd)
}

// ownEvent passes an event of the tenant's own CRDs on, unless it is one
// in whose place the system's is shown.
func (w *shownWatch) ownEvent(event watch.Event) bool {
	if event.Type == watch.Error {
		return w.emit(event)
	}
	accessor, err := meta.Accessor(event.Object)
	if err != nil {
		return false
	}
	w.version = accessor.GetResourceVersion()
	w.d.shown.of.Returned(w.version)
	if event.Type == watch.Bookmark {
		return w.emit(event)
	}
	name, err := nameOf(event.Object)
	if err != nil {
		return false
	}
	_, was := w.shown[name]
	switch {
	case event.Type == watch.Deleted:
		// Perhaps it is only not asked for any more, so look is who knows.
		return (was || w.emit(event)) && w.look(name)
	case w.d.shown.of.Shows(w.tenant, name, true):
		return was || w.look(name)
	case was && !w.hide(name):
		return false
	}
	return w.emit(event)
}

// send reports a CRD of the system.
func (w *shownWatch) send(event watch.EventType, crd *apiextensions.CustomResourceDefinition) bool {
	if w.version != "" {
		told := *crd
		told.ResourceVersion = w.version
		crd = &told
	}
	return w.emit(watch.Event{Type: event, Object: crd})
}

// sendOwn reports an own CRD that is shown again, or not any more.
func (w *shownWatch) sendOwn(event watch.EventType, obj runtime.Object) bool {
	own, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return false
	}
	if matches, err := w.asked.Matches(own); err != nil || !matches {
		return err == nil
	}
	return w.send(event, own)
}

func (w *shownWatch) emit(event watch.Event) bool {
	select {
	case w.result <- event:
		return true
	case <-w.done:
	case <-w.ctx.Done():
	}
	return false
}
