package groupwatch

import (
	"errors"
	"maps"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// errAnew ends a watch whose client has to begin anew, or where it was.
var errAnew = errors.New("the streams of the service groups do not make one watch any more")

const (
	// remembers is how long what all streams have reached is remembered at least: a client that
	// learns of a change of the configurations that late does not have to begin anew.
	remembers = 10 * time.Second
	// maxShown is how many events of a watch can be gone back to: its client may be behind
	// with that many.
	maxShown = 256
)

// position is how far each stream of a watch is, by group.
type position map[string]int64

// low is the revision that all streams have reached.
func (p position) low() int64 {
	first, low := true, int64(0)
	for _, at := range p {
		if first || at < low {
			low, first = at, false
		}
	}
	return low
}

// machine is one watch of everything as a value: where its streams are, and what its client was
// shown. It has no goroutine and no clock. What happens is a call, and what it returns is to be
// done, in order; after errAnew nothing else happens. It outlives a request: a client that comes
// back goes on with what it was shown before.
//
//	begin   its client is at a revision of a list
//	resume  its client is at a revision that it was shown
//	change  somebody else owns something from a revision on
//	take    something came of a stream
type machine struct {
	// bookmarks are for the client.
	bookmarks bool
	sources   map[string]*source
	// turn is that of the last stream that was opened.
	turn int
	// applied is the revision of the last change of the configurations.
	applied int64
	// floor is the revision of the list from which the client began.
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
	// shown are the last things that the client was shown, in order, and last the greatest
	// revision of all. since are the revisions of events since the last bookmark.
	shown []shown
	last  int64
	since map[int64]bool
	// lost is the greatest revision that was shown and cannot be gone back to any more.
	lost int64
}

// source is one of the streams, that of a group.
type source struct {
	turn int
	// reached is the revision up to which all events have come.
	reached int64
	// until is the revision after which it has no events, 0 for one that goes on. It is
	// closed when it has reached it.
	until    int64
	closed   bool
	bookmark *frame // the last one
}

// shown is something that the client was shown.
type shown struct {
	rev int64
	// at is where the streams were before the client was shown something else, and applied the
	// last change of the configurations then. Of the last one that is where they are.
	at      position
	applied int64
	// key is the object, "" for a bookmark, and before the revision of it in recent.
	key    string
	before int64
}

// output is one thing to do: to open or close a stream, or to send a frame.
type output struct {
	open, close int // the turn of the stream, 0 for none
	group       string
	from        int64
	send        *frame
}

// newMachine is one whose client is nowhere.
func newMachine() *machine {
	return &machine{sources: map[string]*source{}, recent: map[string]int64{}, since: map[int64]bool{}}
}

// begin begins with a list, which has what all groups of the first table had.
func (m *machine) begin(rev int64, tables []since) ([]output, error) {
	m.floor, m.forgotten, m.last = rev, rev, rev
	at := position{}
	for _, group := range tables[0].streams {
		at[group] = rev
	}
	return m.start(rev, at, tables)
}

// has reports how often the client was shown a revision: a group of which the client learned late
// may have an event with the revision of a bookmark. from is the revision since which it has to be
// known who owned what.
func (m *machine) has(rev int64) (from int64, times int) {
	m.settle(nil, 0)
	for _, s := range m.shown {
		if s.rev == rev {
			from = min(s.at.low(), s.applied)
			times++
		}
	}
	return from, times
}

// lose has the client begin anew, wherever it is.
func (m *machine) lose() { m.shown, m.lost = nil, m.last }

// settle notes where the streams are when the client has been shown nothing else. One of them may
// have reached more since.
func (m *machine) settle(of *source, reached int64) {
	if len(m.shown) == 0 {
		return
	}
	last := &m.shown[len(m.shown)-1]
	last.applied, last.at = m.applied, make(position, len(m.sources))
	for group, p := range m.sources {
		if last.at[group] = p.reached; p == of {
			last.at[group] = reached
		}
	}
}

// resume goes back to where the client is: what came after it will come again.
func (m *machine) resume(rev int64, tables []since) ([]output, error) {
	n := len(m.shown)
	for ; m.shown[n-1].rev != rev; n-- {
		s := m.shown[n-1]
		switch {
		case s.before > 0:
			m.recent[s.key] = s.before
		case s.key != "":
			delete(m.recent, s.key)
		}
	}
	m.shown = m.shown[:n]
	at := maps.Clone(m.shown[n-1].at)
	if at.low() < m.forgotten {
		return nil, errAnew // what would come again may be older than what the client has
	}
	return m.start(rev, at, tables)
}

// start opens the streams at a position. The first of the tables was in force at it.
func (m *machine) start(rev int64, at position, tables []since) (all []output, err error) {
	m.sources = map[string]*source{}
	m.since = map[int64]bool{rev: true}
	for _, s := range m.shown {
		m.since[s.rev] = true
	}
	for i, t := range tables {
		outs, err := m.apply(t, i == 0, at)
		if err != nil {
			return nil, err
		}
		all = append(all, outs...)
	}
	return all, nil
}

// change opens the streams that there are from a change on. Those that there are no more
// end when they have reached it.
func (m *machine) change(t since) ([]output, error) { return m.apply(t, false, nil) }

func (m *machine) apply(t since, first bool, at position) (outs []output, err error) {
	m.applied = t.at
	there := map[string]bool{}
	for _, group := range t.streams {
		there[group] = true
		p := m.sources[group]
		if p != nil && !p.closed {
			p.until = 0
			continue
		}
		// The position counts once: a stream that returns begins at its return, unless it had
		// come further before the client learned that it was to end.
		from, known := at[group]
		delete(at, group)
		if p != nil {
			from, known = p.reached, true
		}
		if !known || !first && from < t.at {
			// What its tenants had when the client did not know of it is lost, or older than
			// what others had of them since.
			if from = max(t.at, m.floor); first || from < m.forgotten {
				return nil, errAnew
			}
		}
		m.turn++
		m.sources[group] = &source{turn: m.turn, reached: from}
		outs = append(outs, output{open: m.turn, group: group, from: from})
	}
	for group, p := range m.sources {
		if !there[group] && !p.closed && p.until == 0 {
			p.until = t.at
		}
	}
	return outs, nil
}

// take takes what came of a stream.
func (m *machine) take(group string, turn int, f *frame, now time.Time) (outs []output, err error) {
	p := m.sources[group]
	if p == nil || p.turn != turn || p.closed {
		return nil, nil
	}
	switch f.kind {
	case watch.Error:
		return []output{{send: f}}, errAnew
	case watch.Bookmark:
		p.bookmark = f
	}
	was := p.reached
	p.reached = max(was, f.rev)
	// Else the new owner of its tenant was faster.
	if before := m.recent[f.key]; f.kind != watch.Bookmark && before < f.rev {
		m.recent[f.key], m.since[f.rev] = f.rev, true
		m.settle(p, was)
		outs = append(outs, m.show(f, f.key, before))
	}
	if p.until > 0 && p.reached >= p.until {
		p.closed = true
		outs = append(outs, output{close: p.turn, group: group})
	}
	if best := m.mark(now); best != nil {
		m.settle(nil, 0)
		outs = append(outs, m.show(best, "", 0))
	}
	return outs, nil
}

// show sends something.
func (m *machine) show(f *frame, key string, before int64) output {
	if len(m.shown) == maxShown {
		m.lost = max(m.lost, m.shown[0].rev)
		m.shown = m.shown[1:]
	}
	m.shown = append(m.shown, shown{rev: f.rev, key: key, before: before})
	m.last = max(m.last, f.rev)
	return output{send: f}
}

// mark is the last bookmark that all open streams have reached, nil for none that is new and for
// the client.
func (m *machine) mark(now time.Time) *frame {
	low := int64(math.MaxInt64)
	for _, p := range m.sources {
		if !p.closed {
			low = min(low, p.reached)
		}
	}
	var best *frame
	for _, p := range m.sources {
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
	ambiguous := m.since[best.rev]
	m.prune(low, now)
	if !m.bookmarks || ambiguous {
		return nil
	}
	return best
}

// prune forgets what counts no more once all streams have reached a revision.
func (m *machine) prune(low int64, now time.Time) {
	if now.Sub(m.next.at) >= remembers {
		m.forgotten = max(m.forgotten, min(m.next.low, low)) // a stream that returned may be before that
		maps.DeleteFunc(m.recent, func(_ string, rev int64) bool { return rev <= m.forgotten })
		m.next.low, m.next.at = low, now
	}
	maps.DeleteFunc(m.since, func(rev int64, _ bool) bool { return rev <= m.marked })
	maps.DeleteFunc(m.sources, func(_ string, p *source) bool { return p.closed && p.reached <= low })
}
