package origin

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/agent/bootstrap/store"
)

const (
	// defaultWatch is how long a watch lasts that does not say it.
	defaultWatch = 10 * time.Minute
	// detachedWatch is how long a watch lasts when the server is away; the
	// next one looks for it again.
	detachedWatch = 3 * time.Second
)

// localWatch has the events of this node in one watch. The zero value has none.
type localWatch struct {
	// followed is nil for the zero value. It is used by the watch only.
	followed *followed
	// lasts is how long the watch lasts if no server answers it.
	lasts time.Duration
	// offline is closed when there is a server for the first time; nil for
	// watches that do not wait for that.
	offline <-chan struct{}
	// again is closed when the client has to list again for another reason;
	// nil if there is none.
	again <-chan struct{}

	// expired is true if the last list has a pod that is gone since.
	expired bool
	// queue are changes of bootstrap pods, guarded by watchesMu of localPods.
	queue  []store.Change
	signal chan struct{}
}

// emit writes an event. obj is not used elsewhere.
type emit func(kind watch.EventType, obj runtime.Object) error

// watch returns the events of this node for the watch r.
func (b *Bootstrap) watch(r *Request, f *followed) *localWatch {
	l := &localWatch{followed: f, lasts: defaultWatch, signal: make(chan struct{}, 1)}
	if s := r.Options.TimeoutSeconds; s != nil && *s > 0 {
		l.lasts = time.Duration(*s) * time.Second
	}
	return l
}

// pods are those whose changes the watch shows, nil if it shows none.
func (l *localWatch) pods() *localPods {
	if l.followed == nil {
		return nil
	}
	return l.followed.pods
}

// subscribe must be called before the store is read, so that no change falls in
// between.
func (l *localWatch) subscribe() {
	p := l.pods()
	if p == nil {
		return
	}
	p.watchesMu.Lock()
	defer p.watchesMu.Unlock()
	l.expired = p.removed
	p.watches[l] = struct{}{}
}

func (l *localWatch) unsubscribe() {
	p := l.pods()
	if p == nil {
		return
	}
	p.watchesMu.Lock()
	defer p.watchesMu.Unlock()
	delete(p.watches, l)
}

// begin emits every bootstrap pod again: an event of an earlier watch may not
// have arrived.
func (l *localWatch) begin(out emit) error {
	p := l.pods()
	if p == nil {
		return nil
	}
	if l.expired {
		return errExpired
	}
	for _, e := range p.store.List() {
		if err := l.show(store.Change{Entry: e}, out); err != nil {
			return err
		}
	}
	return nil
}

// changes emits the changes since.
func (l *localWatch) changes(out emit) error {
	p := l.pods()
	p.watchesMu.Lock()
	queue := l.queue
	l.queue = nil
	p.watchesMu.Unlock()
	for _, c := range queue {
		if err := l.show(c, out); err != nil {
			return err
		}
	}
	return nil
}

// show emits a change of a bootstrap pod, unless the server has shown the pod
// since.
func (l *localWatch) show(c store.Change, out emit) error {
	p, version := l.followed.pods, l.followed.version
	e, ok := p.store.ByKey(c.Entry.Key())
	switch {
	case c.Removed && !ok && p.checkpoint.pod(c.Entry.Key()) == nil:
		return out(watch.Deleted, asOfServer(c.Entry.Pod, version))
	case c.Removed, !ok, e.State == store.Seen, e.Pod.UID != c.Entry.Pod.UID:
		return nil
	}
	if live := p.checkpoint.pod(e.Key()); e.State == store.Persisted && live != nil && e.Is(live) {
		return nil // in the checkpoint, from before this process
	}
	return out(watch.Modified, asOfServer(e.Pod, version))
}
