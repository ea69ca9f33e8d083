package serving

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

// maxStreams is how many groups a server has streams of without a cache: those of other
// groups, which their own servers should serve. With more, those end that nobody asked for
// for longest, and who reads them asks again.
const maxStreams = 64

// stream is one of the streams of a watch of everything, from the cache.
type stream struct {
	group string
	held  *held
	// of is the owner of an object: its tenant.
	of func(runtime.Object) (tenant string, err error)
	// left is closed when the cache ceases to hold what the stream has.
	left chan struct{}
	// reached is the revision of the last event.
	reached int64

	from watch.Interface
	out  chan watch.Event
	stop chan struct{}
	once sync.Once
}

// watchStream watches one stream from a revision on: in the cache if that holds it, and in the
// datastore otherwise. Streams do not begin with what there is: they would do so at different
// revisions, between which tenants can move.
func (g *grouped) watchStream(
	ctx context.Context, group, key string, opts storage.ListOptions,
) (watch.Interface, error) {
	parsed, err := g.Versioner().ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", field.ErrorList{field.Forbidden(
			field.NewPath("sendInitialEvents"), "a stream of a service group begins at a revision: list it first")})
	}
	s := &stream{
		group: group, held: g.held, of: g.tenantOf, left: make(chan struct{}),
		reached: int64(parsed), //nolint:gosec // revisions of etcd are signed
		out:     make(chan watch.Event), stop: make(chan struct{}),
	}
	for {
		changes, err := g.held.still(ctx)
		if err != nil {
			return nil, err
		}
		if !g.held.begin(s, changes) {
			if !g.held.unchanged(changes) {
				continue
			}
			if _, err := g.held.serves(group); err != nil {
				return nil, err
			}
			return g.uncached(ctx, group, key, opts, s.reached)
		}
		// The bookmarks tell how far the stream is.
		if s.from, err = g.Interface.Watch(ctx, key, opts); err != nil {
			g.held.leave(s)
			return nil, err
		}
		go s.run()
		return s, nil
	}
}

// uncached watches a stream in the datastore. One that is older than the cache of its group
// ends when the cache can go on with it.
func (g *grouped) uncached(
	ctx context.Context, group, key string, opts storage.ListOptions, reached int64,
) (watch.Interface, error) {
	from, err := g.stream(group)
	if err != nil {
		return nil, storage.NewInternalError(err)
	}
	opts.ProgressNotify = true
	w, err := from.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	u := &older{held: g.held, group: group, reached: reached, from: w, out: make(chan watch.Event),
		stop: make(chan struct{})}
	go u.run()
	return u, nil
}

// tenantOf is the tenant that owns an object.
func (g *grouped) tenantOf(obj runtime.Object) (string, error) {
	key, err := g.key(obj)
	if err != nil {
		return "", err
	}
	return ownership.TenantOf(g.layout, strings.TrimPrefix(strings.TrimPrefix(key, g.prefix), "/")), nil
}

func (s *stream) run() {
	defer close(s.out)
	defer s.from.Stop()
	defer s.held.leave(s)
	for {
		select {
		case <-s.stop:
			return
		case <-s.left:
			return // who reads it goes on elsewhere from where it is
		case e, ok := <-s.from.ResultChan():
			if !ok || !s.take(e) {
				return
			}
		}
	}
}

// take hands an event on if it is one of the stream. It returns false at the end.
func (s *stream) take(e watch.Event) bool {
	if e.Type == watch.Error {
		s.send(e)
		return false
	}
	o, err := meta.CommonAccessor(e.Object)
	if err != nil {
		return false
	}
	rev, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return false
	}
	if e.Type == watch.Bookmark {
		s.reached = max(s.reached, rev)
		return s.send(e)
	}
	tenant, err := s.of(uncovered(e.Object))
	if err != nil {
		return false
	}
	if rev < s.reached {
		return true // a move put it in
	}
	s.reached = rev
	table, ok := s.held.tableAt(rev)
	if !ok {
		return false
	}
	return !table.Streams(s.group, tenant) || s.send(e)
}

// uncovered is the object of which others keep encoded forms, too.
func uncovered(obj runtime.Object) runtime.Object {
	if shared, ok := obj.(runtime.CacheableObject); ok {
		return shared.GetObject()
	}
	return obj
}

func (s *stream) send(e watch.Event) bool {
	select {
	case s.out <- e:
		return true
	case <-s.stop:
		return false
	case <-s.left:
		return false
	}
}

// Stop implements watch.Interface.
func (s *stream) Stop() { s.once.Do(func() { close(s.stop) }) }

// ResultChan implements watch.Interface.
func (s *stream) ResultChan() <-chan watch.Event { return s.out }

// begin makes a stream known, so that it ends when the cache ceases to hold it. It fails if
// the cache does not, or has not since the revision from which it is asked, or if
// something has moved since.
func (h *held) begin(s *stream, changes int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changes != changes || h.table == nil || !h.streamed(s.group, h.table) {
		return false
	}
	if !h.since(s.group, s.reached) {
		return false
	}
	h.streams[s] = struct{}{}
	return true
}

// since reports whether the cache has had all of a stream since a revision.
func (h *held) since(group string, rev int64) bool {
	tables, ok := h.tables.From(rev)
	return ok && h.table != nil &&
		!slices.ContainsFunc(tables, func(s since) bool { return !h.streamed(group, s.table) })
}

// streamed reports whether the cache has all of a stream.
func (h *held) streamed(group string, t *ownership.Table) bool {
	return !t.Configured(h.group) || group == h.group ||
		group == partitionapi.Rest && len(t.Gaps()) == 0
}

func (h *held) leave(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, s)
}

// tableAt is who owned what at a revision; ok is false if that is forgotten.
func (h *held) tableAt(rev int64) (_ *ownership.Table, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.tables.At(rev)
	return s.table, ok
}

// streams are the storages of the streams of groups, without a cache. They are made
// when they are asked for.
type streams struct {
	make func(group string) (storage.Interface, func(), error)

	mu   sync.Mutex
	made []uncachedStream // that asked for last at the end
}

type uncachedStream struct {
	group string
	storage.Interface
	stop func()
}

func (s *streams) of(group string) (storage.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.made, func(u uncachedStream) bool { return u.group == group }); i >= 0 {
		found := s.made[i]
		s.made = append(slices.Delete(s.made, i, i+1), found)
		return found.Interface, nil
	}
	made, stop, err := s.make(group)
	if err != nil {
		return nil, err
	}
	if len(s.made) >= maxStreams {
		s.made[0].stop()
		s.made = slices.Delete(s.made, 0, 1)
	}
	s.made = append(s.made, uncachedStream{group, made, stop})
	return made, nil
}

func (s *streams) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.made {
		u.stop()
	}
	s.made = nil
}
