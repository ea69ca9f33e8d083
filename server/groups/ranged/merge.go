package ranged

import (
	"context"
	"math"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/ownership"
)

const (
	// buffered is how many responses of all watches wait to be merged.
	buffered = 128
	// askAgain is when etcd is asked again how far the watches are: it drops such
	// requests while a watch is behind.
	askAgain = 20 * time.Millisecond
	// askLast is how long that becomes while nothing goes on.
	askLast = 10 * askAgain
	// settled is when no answer to a question from before a watch was opened is on its
	// way any more.
	settled = 500 * time.Millisecond
)

// role is what a watch is for.
type role int

const (
	// objects are those of the resource.
	objects role = iota
	// configs are the DataPartitionConfigs.
	configs
	// namespaces are those of the cluster, of which a new one of the system adds a range.
	namespaces
)

// mergedWatch is one of the watches that are merged.
type mergedWatch struct {
	role   role
	within ownership.Range
	cancel context.CancelFunc
	// events have come and are not sent yet.
	events []*clientv3.Event
	// reached is the revision up to which all events have come.
	reached int64
	// opened is when etcd had the watch, and at its revision then. etcd answers all watches
	// of a stream at once how far they are, and an answer from before that can overtake the
	// first events: only one with a later revision is certainly none.
	opened time.Time
	at     int64
}

// believes reports whether an answer how far the watch is was given when etcd had it.
func (p *mergedWatch) believes(revision int64) bool {
	return !p.opened.IsZero() && (revision > p.at || time.Since(p.opened) > settled)
}

// first is the revision of the first event that is not sent yet.
func (p *mergedWatch) first() int64 { return p.events[0].Kv.ModRevision }

// response is what came of one of them; ended is set when nothing else will.
type response struct {
	of    *mergedWatch
	what  clientv3.WatchResponse
	ended bool
}

// merge is one watch of a resource.
type merge struct {
	*watcher
	ctx    context.Context
	cancel context.CancelFunc
	in     chan response
	out    chan clientv3.WatchResponse

	view    *view
	watches map[*mergedWatch]bool
	// done is the revision up to which everything was sent.
	done int64
	// last is the last event that was put in or taken out.
	last *clientv3.Event
	// asked is set while etcd has to say how far the watches are, and answered is what it
	// has said. What still waits then, for a watch that does not believe it, waits for the
	// next question.
	asked    bool
	answered int64
}

func (m *merge) run() {
	defer close(m.out)
	defer m.cancel()
	if !m.begin() {
		return
	}
	defer m.changes.End()
	defer m.source.progress.end(m)
	var again <-chan time.Time
	var asks asking
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-again:
			m.asked, m.answered = false, 0
		case r := <-m.in:
			if !m.take(r) || !m.takeAll() {
				return
			}
		}
		waits, ok := m.advance()
		if !ok {
			return
		}
		switch {
		case waits == 0:
			m.asked, m.answered, again = false, 0, nil // nothing would ask again
		case !m.asked && waits > m.answered:
			if err := m.Watcher.RequestProgress(m.ctx); err != nil {
				return
			}
			m.asked, again = true, time.After(asks.next(waits))
		}
	}
}

// asking is how etcd is asked how far the watches are.
type asking struct {
	waits int64
	pause time.Duration
}

// next is how long to wait for an answer to the next question, for the sake of a revision.
func (a *asking) next(waits int64) time.Duration {
	if waits != a.waits {
		*a = asking{waits: waits}
	}
	a.pause = min(max(2*a.pause, askAgain), askLast)
	return a.pause
}

// begin opens the watches as of the revision from which they are asked.
func (m *merge) begin() bool {
	v, _, err := m.source.at(m.ctx, m.done)
	if err != nil {
		// Upstream lists again then. What the error is, it finds out by its list.
		return m.end()
	}
	m.view, m.watches = v, map[*mergedWatch]bool{}
	m.changes.Begin(v.table, m.done)
	m.source.progress.begin(m, v, m.done)
	m.open(configs, prefixRange(m.source.Configs), m.done+1)
	m.open(namespaces, prefixRange(m.source.Namespaces), m.done+1)
	for _, r := range m.source.ranges(v, m.resource) {
		m.open(objects, r, m.done+1)
	}
	return true
}

func prefixRange(prefix string) ownership.Range {
	return ownership.Range{From: prefix, To: clientv3.GetPrefixRangeEnd(prefix)}
}

// open watches a range from a revision on.
func (m *merge) open(as role, within ownership.Range, from int64) {
	ctx, cancel := context.WithCancel(m.ctx)
	p := &mergedWatch{role: as, within: within, cancel: cancel, reached: from - 1}
	m.watches[p] = true
	opts := []clientv3.OpOption{
		clientv3.WithRange(within.To), clientv3.WithRev(from), clientv3.WithProgressNotify(),
		clientv3.WithCreatedNotify(),
	}
	switch as {
	case objects:
		opts = append(opts, clientv3.WithPrevKV())
	case namespaces:
		opts = append(opts, clientv3.WithFilterDelete())
	}
	responses := m.Watcher.Watch(ctx, within.From, opts...)
	go func() {
		for r := range responses {
			select {
			case m.in <- response{of: p, what: r}:
			case <-ctx.Done():
				return
			}
		}
		select {
		case m.in <- response{of: p, ended: true}:
		case <-ctx.Done():
		}
	}()
}

// shut ends a watch. What has come of it is not sent.
func (m *merge) shut(p *mergedWatch) {
	p.cancel()
	delete(m.watches, p)
}

// takeAll takes what else has come already.
func (m *merge) takeAll() bool {
	for {
		select {
		case r := <-m.in:
			if !m.take(r) {
				return false
			}
		default:
			return true
		}
	}
}

// take puts a response where it belongs. It returns false at the end of the watch.
func (m *merge) take(r response) bool {
	p := r.of
	switch {
	case !m.watches[p]: // of a watch that was shut
	case r.ended:
		return false
	case r.what.Err() != nil:
		m.send(r.what)
		return false
	case len(r.what.Events) > 0 && r.what.Events[0].Kv.ModRevision <= m.done:
		// Another answer was wrong, such as one that overtook what came when the stream of
		// watches was opened again. The order is lost.
		return m.end()
	case len(r.what.Events) > 0:
		p.events = append(p.events, r.what.Events...)
		p.reached = max(p.reached, r.what.Events[len(r.what.Events)-1].Kv.ModRevision)
	case r.what.Created:
		p.opened, p.at = time.Now(), r.what.Header.GetRevision()
	case r.what.IsProgressNotify():
		if p.believes(r.what.Header.GetRevision()) {
			p.reached = max(p.reached, r.what.Header.GetRevision())
		}
		// The configurations change so rarely that this is the answer.
		if m.asked && p.role == configs {
			m.asked, m.answered = false, r.what.Header.GetRevision()
		}
	}
	return true
}

// advance sends the events that no other watch can be behind of, in the order of
// revisions. It returns the revision of the first event that is left and waits for other
// watches, 0 if there is none.
func (m *merge) advance() (waits int64, ok bool) {
	for {
		batch, then, waits := m.ready()
		if len(batch) > 0 {
			m.done = batch[len(batch)-1].Kv.ModRevision
			if !m.send(clientv3.WatchResponse{Header: m.header(m.done), Events: batch}) {
				return 0, false
			}
		}
		if then != nil {
			if !m.apply(then) {
				return 0, false
			}
			continue
		}
		return waits, m.sendProgress()
	}
}

func (m *merge) header(revision int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{Revision: revision}
}

// ready are the events of objects that can be sent, up to the next one that changes
// the ranges.
func (m *merge) ready() (batch []*clientv3.Event, then *change, waits int64) {
	for {
		best, safe := m.next()
		if best == nil {
			return batch, nil, 0
		}
		if best.first() > safe {
			return batch, nil, best.first()
		}
		e := best.events[0]
		best.events = best.events[1:]
		switch key := string(e.Kv.Key); best.role {
		case configs:
			return batch, &change{event: e, role: configs}, 0
		case namespaces:
			name, ok := m.source.systemNamespace(key)
			if ok && !slices.Contains(m.view.namespaces, name) {
				return batch, &change{event: e, role: namespaces, namespace: name}, 0
			}
		default:
			if !m.source.foreign(m.view, m.resource, key) {
				batch = append(batch, e)
			}
		}
	}
}

// next is the watch with the earliest event, nil for none, and the revision up to which
// all others have everything.
func (m *merge) next() (best *mergedWatch, safe int64) {
	safe = math.MaxInt64
	for p := range m.watches {
		switch {
		case len(p.events) == 0:
			safe = min(safe, p.reached)
		case best == nil || p.first() < best.first() || p.first() == best.first() && p.role < best.role:
			best = p
		}
	}
	return best, safe
}

// sendProgress says how far the watch is, if it is further than before.
func (m *merge) sendProgress() bool {
	low := int64(math.MaxInt64)
	for p := range m.watches {
		reached := p.reached
		if len(p.events) > 0 {
			reached = p.first() - 1
		}
		low = min(low, reached)
	}
	if low <= m.done {
		return true
	}
	m.done = low
	return m.send(clientv3.WatchResponse{Header: m.header(low)})
}

func (m *merge) send(r clientv3.WatchResponse) bool {
	select {
	case m.out <- r:
		return true
	case <-m.ctx.Done():
		return false
	}
}

// end ends the watch so that upstream's cache lists again. It returns false.
func (m *merge) end() bool {
	m.send(clientv3.WatchResponse{Header: m.header(m.done), Canceled: true, CompactRevision: m.done + 1})
	return false
}
