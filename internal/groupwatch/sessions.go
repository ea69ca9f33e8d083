package groupwatch

import (
	"slices"
	"sync"
)

const (
	// maxWatches is how many different watches of a client are remembered.
	maxWatches = 1024
	// maxEnded is how many of one name are remembered that have ended.
	maxEnded = 8
)

// memory has the watches of a client, so that it can come back to them.
//
// Locks are taken in this order: memory.mu, then session.mu or Groups.mu. The lock of faults is
// never held with another one. Nobody sends, reads or waits under any of them: merge takes
// session.mu for one step of the machine, and does afterwards what that said. The machine of a watch
// that has ended is used under memory.mu alone.
type memory struct {
	mu     sync.Mutex
	byName map[string]*sessions
	// dropped is the greatest revision that was shown by watches of names that are not
	// remembered. Up to it nobody knows whether a revision is one of a list.
	dropped int64
}

// sessions are the watches of one name. Several clients may have one at the same time.
type sessions struct {
	open, ended []*session
	// last is the greatest revision that was shown by those that are forgotten.
	last int64
}

// session is one watch. Its machine is used until the client closes it, and then by the session
// that goes on with it.
type session struct {
	memory *memory
	name   string

	mu     sync.Mutex // after memory.mu
	m      *machine
	closed bool
}

// begin begins a watch from a revision, with what is to be done first. A revision that no
// watch has shown is one of a list. It is errAnew if a watch has shown it, or later ones, and where
// it was is forgotten, or who owned what then.
func (m *memory) begin(
	name string, rev int64, bookmarks bool, tables func(int64) ([]since, bool),
) (*session, []output, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of, last := m.byName[name], m.dropped
	if of == nil {
		of = m.add(name)
	} else {
		last = of.last
	}
	s := &session{memory: m, name: name, m: newMachine()}
	// Who comes may be the client of any watch that has shown the revision, or may have.
	low, shown, lost := rev, 0, max(last, m.dropped) // low is since when it has to be known who owned what
	for i, old := range slices.Backward(of.ended) {
		last = max(last, old.m.last)
		switch from, times := old.m.has(rev); {
		case times > 0:
			if shown > 0 { // of several, which all begin anew, one is kept
				of.last = max(of.last, s.m.last)
			}
			s.m, low = old.m, from
			of.ended = slices.Delete(of.ended, i, i+1)
			shown += times
		case rev > old.m.floor:
			lost = max(lost, old.m.lost)
		}
	}
	of.open = append(of.open, s)
	s.m.bookmarks = bookmarks
	from, known := tables(low)
	var outs []output
	var err error
	switch {
	case !known || shown == 0 && rev <= last || shown > 1 || shown == 1 && rev <= lost:
		err = errAnew
	case shown == 1:
		outs, err = s.m.resume(rev, from)
	default:
		outs, err = s.m.begin(rev, from)
	}
	if err != nil {
		s.lose()
		s.end(of)
	}
	return s, outs, err
}

// add remembers a name. The caller holds mu.
func (m *memory) add(name string) *sessions {
	if len(m.byName) >= maxWatches {
		for _, of := range m.byName {
			m.dropped = max(m.dropped, of.last)
			for _, s := range of.ended {
				m.dropped = max(m.dropped, s.m.last)
			}
		}
		m.byName = nil // their clients begin anew
	}
	if m.byName == nil {
		m.byName = map[string]*sessions{}
	}
	of := &sessions{}
	m.byName[name] = of
	return of
}

// forget is for a client that begins anew. Watches that are open are those of others. So two parts
// of a program that watch the same, and can begin anew, have a client each.
func (m *memory) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch of := m.byName[name]; {
	case of != nil:
		if of.ended, of.last = nil, 0; len(of.open) == 0 && m.dropped == 0 {
			delete(m.byName, name)
		}
	case m.dropped > 0:
		m.add(name) // what it lists is no revision that was dropped
	}
}

// do lets something happen, unless the client has closed the watch: what is on its way it does
// not see.
func (s *session) do(f func(m *machine) ([]output, error)) (_ []output, open bool, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false, nil
	}
	outs, err := f(s.m)
	return outs, true, err
}

// lose is for a watch that cannot go on, whatever its client has seen.
func (s *session) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.m.lose()
	}
}

// close ends a watch. Its client may come back.
func (s *session) close() {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	of := s.memory.byName[s.name]
	s.end(of)
}

// end is close for whom holds the memory.
func (s *session) end(of *sessions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	i := -1
	if of != nil {
		i = slices.Index(of.open, s)
	}
	switch {
	case i < 0:
		s.memory.dropped = max(s.memory.dropped, s.m.last)
		return
	case s.m.last > s.m.floor: // it has shown something
		of.ended = append(of.ended, s)
	}
	of.open = slices.Delete(of.open, i, i+1)
	if len(of.ended) > maxEnded {
		of.last = max(of.last, of.ended[0].m.last)
		of.ended = slices.Delete(of.ended, 0, 1)
	}
	if len(of.open)+len(of.ended) == 0 && of.last == 0 && s.memory.dropped == 0 {
		delete(s.memory.byName, s.name)
	}
}
