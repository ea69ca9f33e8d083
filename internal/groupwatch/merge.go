package groupwatch

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// errAnew ends a watch whose client has to begin anew, or where it was.
var errAnew = errors.New("the streams of the service groups do not make one watch any more")

// opener opens a stream of a group from a revision on.
type opener func(ctx context.Context, group string, from int64) (frames, io.Closer, error)

// arrived is what came of a stream.
type arrived struct {
	of   *part
	what *frame
	err  error // it ended
}

// part is one of the streams that are merged.
type part struct {
	group  string
	cancel context.CancelFunc
	// reached is the revision up to which all events have come.
	reached int64
	// until is the revision after which it has no events, 0 for one that goes on. It is
	// closed when it has reached it.
	until  int64
	closed bool
	// bookmark is the last one.
	bookmark *frame
}

// merge is one watch of everything.
type merge struct {
	groups *Groups
	open   opener
	// send hands an event on with the revision that the client sees then, and where the streams are.
	send func(raw []byte, rev int64, at position) error
	// bookmarks are for the client.
	bookmarks bool

	in    chan arrived
	parts map[string]*part
	// applied is the revision of the last change of the configurations.
	applied int64
	// floor is the revision of the list from which the client begins, 0 for none.
	floor int64
	// recent are the revisions of objects that were sent and that not all streams have reached,
	// or not for long. Up to forgotten there may have been others: a stream that began before
	// it could go back.
	recent    map[string]int64
	forgotten int64
	// next is what is forgotten next, which all streams had reached at that time.
	next struct {
		low int64
		at  time.Time
	}
	marked int64 // the revision of the last bookmark
	// shown are the revisions of events that the client has seen since. from is the one that
	// it began with.
	shown map[int64]bool
	from  int64
}

// remembers is how long what all streams have reached is remembered at least: a client that
// learns of a change of the configurations that late does not have to begin anew.
const remembers = 10 * time.Second

// run merges until ctx ends or a stream cannot go on.
func (m *merge) run(ctx context.Context, start []since, at position) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.in, m.parts, m.recent = make(chan arrived), map[string]*part{}, map[string]int64{}
	m.shown = map[int64]bool{m.from: true}
	m.forgotten = at.high()
	for i, t := range start {
		if err := m.apply(ctx, t, i == 0, at); err != nil {
			return err
		}
	}
	for {
		more, changed, ok := m.groups.after(m.applied)
		if !ok {
			return errAnew
		}
		for _, t := range more {
			if err := m.apply(ctx, t, false, at); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case a := <-m.in:
			if err := m.take(ctx, a); err != nil {
				return err
			}
		}
	}
}

// apply opens the streams that there are from a change on: those that the client has a part of
// where it was, others at the change. Those that there are no more end when they have reached it.
func (m *merge) apply(ctx context.Context, t since, first bool, at position) error {
	m.applied = t.at
	there := map[string]bool{}
	for _, group := range t.streams {
		there[group] = true
		if p := m.parts[group]; p != nil && !p.closed {
			p.until = 0
			continue
		}
		// The position counts once: a stream that returns begins at its return.
		from, known := at[group]
		delete(at, group)
		if !known || !first && from < t.at {
			// What its tenants had when the client did not know of it is lost, or older than
			// what others had of them since.
			if from = max(t.at, m.floor); first || from < m.forgotten {
				return errAnew
			}
		}
		m.start(ctx, &part{group: group, reached: from})
	}
	for group, p := range m.parts {
		if !there[group] && !p.closed && p.until == 0 {
			p.until = t.at
		}
	}
	return nil
}

// start reads a stream. It is opened again where it was whenever it ends.
func (m *merge) start(ctx context.Context, p *part) {
	ctx, p.cancel = context.WithCancel(ctx)
	m.parts[p.group] = p
	from := p.reached
	go func() {
		hand := func(a arrived) bool {
			select {
			case m.in <- a:
				return true
			case <-ctx.Done():
				return false
			}
		}
		for pause := minPause; ; {
			next, body, err := m.open(ctx, p.group, from)
			for err == nil {
				var f *frame
				if f, err = next(); err != nil {
					break
				}
				pause, from = minPause, max(from, f.rev)
				if !hand(arrived{of: p, what: f}) {
					break
				}
			}
			if body != nil {
				_ = body.Close() // all of it was read that is wanted
			}
			if ctx.Err() != nil {
				return
			}
			if errors.Is(err, errAnew) || errors.Is(err, errFrame) {
				hand(arrived{of: p, err: errAnew})
				return
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			pause = min(2*pause, maxPause)
		}
	}()
}

// Pauses between two tries to open a stream.
const (
	minPause = 20 * time.Millisecond
	maxPause = time.Second
)

// take hands on what came of a stream.
func (m *merge) take(ctx context.Context, a arrived) error {
	p, f := a.of, a.what
	switch {
	case m.parts[p.group] != p || p.closed:
		return nil
	case a.err != nil:
		return a.err
	case f.kind == watch.Error:
		if err := m.send(f.raw, 0, nil); err != nil {
			return err
		}
		return errAnew
	case f.kind == watch.Bookmark:
		return m.bookmark(p, f)
	}
	p.reached = max(p.reached, f.rev)
	if m.recent[f.key] >= f.rev {
		return m.progress(p) // the new owner of its tenant was faster
	}
	m.recent[f.key], m.shown[f.rev] = f.rev, true
	if err := m.send(f.raw, f.rev, m.position()); err != nil {
		return err
	}
	return m.progress(p)
}

// position is how far the streams are, those that are closed, too: a client that comes back
// must not see their events again.
func (m *merge) position() position {
	at := make(position, len(m.parts))
	for group, p := range m.parts {
		at[group] = p.reached
	}
	return at
}

// low is the revision that all streams have reached that are open.
func (m *merge) low() int64 {
	low := int64(math.MaxInt64)
	for _, p := range m.parts {
		if !p.closed {
			low = min(low, p.reached)
		}
	}
	return low
}

func (m *merge) bookmark(p *part, f *frame) error {
	p.bookmark, p.reached = f, max(p.reached, f.rev)
	return m.progress(p)
}

// progress closes a stream that has reached its end, and hands on the last bookmark that
// all streams have reached.
func (m *merge) progress(p *part) error {
	if p.until > 0 && p.reached >= p.until && !p.closed {
		p.closed = true
		p.cancel()
	}
	low := m.low()
	var best *frame
	for _, p := range m.parts {
		b := p.bookmark
		if b != nil && b.rev <= low && b.rev > m.marked && (best == nil || b.rev > best.rev) {
			best = b
		}
	}
	if best == nil {
		return nil
	}
	m.marked = best.rev
	// A client that returns with the revision of an event has seen that, and not what other
	// streams have sent since.
	shown := m.shown[best.rev]
	m.prune(low)
	if !m.bookmarks || shown {
		return nil
	}
	return m.send(best.raw, best.rev, m.position())
}

// forget forgets what was sent up to a revision.
func (m *merge) forget(low int64) {
	m.forgotten = max(m.forgotten, low)
	for key, rev := range m.recent {
		if rev <= low {
			delete(m.recent, key)
		}
	}
}

// prune forgets what counts no more once all streams have reached a revision.
func (m *merge) prune(low int64) {
	if now := time.Now(); now.Sub(m.next.at) >= remembers {
		m.forget(m.next.low)
		m.next.low, m.next.at = low, now
	}
	for rev := range m.shown {
		if rev <= m.marked {
			delete(m.shown, rev)
		}
	}
	for group, p := range m.parts {
		if p.closed && p.until <= low {
			delete(m.parts, group)
		}
	}
}
