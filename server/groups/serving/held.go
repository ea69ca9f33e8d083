package serving

import (
	"context"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/server/groups/ranged"
)

const (
	// lookAgain is how often the cache is asked whether it shows the end of a move.
	lookAgain = time.Millisecond
	// maxArrivals is how many moves are remembered. Watches from before the oldest one are not
	// served from the cache.
	maxArrivals = 1000
)

var _ ranged.Changes = (*held)(nil)

// held is what the cache of one resource holds. It holds nothing while its watch of the
// datastore is down.
//
// mu is the innermost lock, and nobody waits or reads the cache under it. One goroutine, that of the
// watch of the datastore, calls Begin, Configured, Change, Changed and End, and the watch goes on
// when they return. So a reader takes what has moved until now (has, still), reads, and asks whether
// that has changed (unchanged); and whoever watches a tenant that leaves is told (left) before the
// cache sees the objects go. Changed waits for the cache without mu.
type held struct {
	group string
	// shown reports whether the cache shows an event.
	shown func(context.Context, *clientv3.Event) bool

	mu    sync.Mutex
	table *ownership.Table // nil for nothing
	// moving are the tenants that are being put in or taken out, until settled.
	moving  []ownership.Span
	settled chan struct{} // closed unless something moves
	// changes counts what moved.
	changes  int
	arrivals []arrival
	watches  map[*continued]struct{}
	tables   ownership.History[since]
	streams  map[*stream]struct{}
}

// since is who owns what from a revision on.
type since struct {
	at    int64
	table *ownership.Table
}

// Since implements ownership.Dated.
func (s since) Since() int64 { return s.at }

// everybody is the span of all tenants.
var everybody = []ownership.Span{{Open: true}}

// arrival is when tenants came into the cache.
type arrival struct {
	spans []ownership.Span
	at    int64
}

func newHeld(group string) *held {
	settled := make(chan struct{})
	close(settled)
	return &held{
		group: group, settled: settled, watches: map[*continued]struct{}{}, streams: map[*stream]struct{}{},
	}
}

// Begin implements ranged.Changes.
func (h *held) Begin(t *ownership.Table, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.table = t
	h.arrivals = []arrival{{everybody, at}}
	h.tables.Begin(since{at, t})
	h.changes++
}

// Configured implements ranged.Changes.
func (h *held) Configured(t *ownership.Table, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tables.Add(since{at, t})
	h.changes++
	for s := range h.streams {
		if !h.streamed(s.group, t) {
			delete(h.streams, s)
			close(s.left)
		}
	}
}

// Change implements ranged.Changes.
func (h *held) Change(gone, come []ownership.Span, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moving = slices.Concat(gone, come)
	h.settled = make(chan struct{})
	h.changes++
	if len(h.arrivals) == maxArrivals {
		h.arrivals = h.arrivals[1:]
		h.arrivals[0].spans = everybody
	}
	if len(come) > 0 {
		h.arrivals = append(h.arrivals, arrival{come, at})
	}
	for w := range h.watches {
		if w.tenant == "" || in(gone, w.tenant) {
			delete(h.watches, w)
			close(w.left)
		}
	}
}

// Changed implements ranged.Changes.
func (h *held) Changed(ctx context.Context, t *ownership.Table, last *clientv3.Event) bool {
	for last != nil && !h.shown(ctx, last) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(lookAgain):
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.table = t
	h.settle()
	return true
}

// End implements ranged.Changes.
func (h *held) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.table = nil
	h.settle()
}

func (h *held) settle() {
	h.changes++
	if h.moving != nil {
		h.moving = nil
		close(h.settled)
	}
}

func in(spans []ownership.Span, tenant string) bool {
	return slices.ContainsFunc(spans, func(s ownership.Span) bool { return s.Has(tenant) })
}

// has reports whether the cache holds a tenant, and how much has moved until now.
func (h *held) has(tenant string) (changes int, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes, h.holds(tenant)
}

// holds reports whether the cache has a tenant, "" for all of them.
func (h *held) holds(tenant string) bool {
	switch {
	case h.table == nil:
		return false
	case tenant == "":
		return h.table.HoldsAll(h.group) && len(h.moving) == 0
	}
	return h.table.Holds(h.group, tenant) && !in(h.moving, tenant)
}

// unchanged reports whether nothing has moved since.
func (h *held) unchanged(changes int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes == changes
}

// still waits until nothing moves, and returns how much has moved until then.
func (h *held) still(ctx context.Context) (changes int, err error) {
	for {
		h.mu.Lock()
		changes, settled, moving := h.changes, h.settled, len(h.moving) > 0
		h.mu.Unlock()
		if !moving {
			return changes, nil
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// follow makes a watch of a tenant known, so that it is told when the tenant leaves. It
// fails if the cache does not hold the tenant, or has not since the revision from which
// the watch is asked, 0 for now.
func (h *held) follow(w *continued, from int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.holds(w.tenant) {
		return false
	}
	for _, a := range h.arrivals {
		if from > 0 && from < a.at && (w.tenant == "" || in(a.spans, w.tenant)) {
			return false
		}
	}
	h.watches[w] = struct{}{}
	return true
}

func (h *held) forget(w *continued) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watches, w)
}
