package groupwatch

import (
	"maps"
	"sync"
)

const (
	// maxRemembered is how many events of a watch are remembered: its client may be behind
	// with that many.
	maxRemembered = 256
	// maxWatches is how many different watches of a client are remembered.
	maxWatches = 1024
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

// high is the greatest revision that a stream has reached.
func (p position) high() (high int64) {
	for _, at := range p {
		high = max(high, at)
	}
	return high
}

// memory is where watches were when their clients saw a revision.
type memory struct {
	mu      sync.Mutex
	watches map[string]*seen
	// dropped is the greatest revision that a watch has shown that is forgotten as a whole, 0 for
	// none: there were too many. Up to it nobody knows whether a revision is one of a list.
	dropped int64
}

// seen are the last events of one watch.
type seen struct {
	order []int64 // revisions
	at    map[int64]position
	last  int64 // the greatest one
	lost  bool  // it cannot go on from any of them
}

// remember says that a client has seen a revision when the streams were there, unless it has
// closed the watch. If it has seen it before, in another watch, it may be where either was.
func (m *memory) remember(watch string, rev int64, at position, closed *bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if *closed {
		return
	}
	s := m.watches[watch]
	if s == nil {
		s = m.add(watch)
	}
	s.last = max(s.last, rev)
	if before, ok := s.at[rev]; ok {
		s.at[rev] = earlier(before, at)
		return
	}
	if len(s.order) == maxRemembered {
		delete(s.at, s.order[0])
		s.order = s.order[1:]
	}
	s.order = append(s.order, rev)
	s.at[rev] = at
}

// add begins to remember a watch. The caller holds mu.
func (m *memory) add(watch string) *seen {
	if len(m.watches) >= maxWatches {
		for _, s := range m.watches {
			m.dropped = max(m.dropped, s.last)
		}
		m.watches = nil // their clients begin anew
	}
	if m.watches == nil {
		m.watches = map[string]*seen{}
	}
	s := &seen{at: map[int64]position{}}
	m.watches[watch] = s
	return s
}

// earlier is where neither has seen more.
func earlier(a, b position) position {
	out := position{}
	for group, at := range a {
		if other, ok := b[group]; ok {
			at = min(at, other)
		}
		out[group] = at
	}
	for group, at := range b {
		if _, ok := a[group]; !ok {
			out[group] = at
		}
	}
	return out
}

// find is where a client was that has seen a revision. A revision that no watch has
// shown is one of a list, which has everything up to it: then it is nil. It is false if the
// watch has shown later ones and this one is forgotten.
func (m *memory) find(watch string, rev int64) (position, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.watches[watch]
	if s == nil {
		return nil, rev > m.dropped
	}
	if at, ok := s.at[rev]; ok {
		// What came after it will come again, when the streams are elsewhere.
		s.order, s.at = []int64{rev}, map[int64]position{rev: at}
		return maps.Clone(at), true
	}
	return nil, rev > s.last && !s.lost
}

// close is for a client that closes a watch: what is on its way it does not see.
func (m *memory) close(closed *bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*closed = true
}

// lose is for a watch that cannot go on, whatever its client has seen.
func (m *memory) lose(watch string, closed *bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.watches[watch]; s != nil && !*closed {
		*s = seen{at: map[int64]position{}, last: s.last, lost: true}
	}
}

// forget is for a client that begins anew.
func (m *memory) forget(watch string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.watches, watch)
	if m.dropped > 0 {
		m.add(watch) // what it lists is no revision that was dropped
	}
}
