package ranged

import (
	"slices"
	"sync"

	"github.com/a4s-io/a4s/internal/ownership"
)

// Progress is how far the watches of a source are with the configurations.
type Progress struct {
	// Revision is that of the newest change which the watches of all resources have met,
	// 0 if there was none.
	Revision int64
	// Moves are the changes since the start by which tenants came or left, and which the
	// watches of all resources have met.
	Moves int
	// Table says who owns what.
	Table *ownership.Table
}

// Progress is how far the watches are.
func (s *Source) Progress() Progress {
	p := &s.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	return Progress{Revision: p.least(), Moves: p.moves, Table: p.table}
}

// progress is kept by the watches.
type progress struct {
	mu sync.Mutex
	// watches are the open ones, with the newest change that each has met.
	watches map[*merge]int64
	// newest is the newest change that any has met, and table what it made.
	newest int64
	table  *ownership.Table
	// moves were met by all, moving are the revisions of those that were not yet, in
	// order. The last one was at movedAt.
	moves   int
	moving  []int64
	movedAt int64
}

// begin is told of a watch that begins behind a revision.
func (p *progress) begin(m *merge, v *view, done int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := v.newest
	if p.newest <= done {
		at = max(at, p.newest) // it can be a deletion, of which the view knows nothing
	}
	p.note(m, v, at)
}

// met is told of a change that a watch has met. Tenants came or left by it if it moved
// some.
func (p *progress) met(m *merge, v *view, at int64, moved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if moved && at > p.movedAt {
		p.moving, p.movedAt = append(p.moving, at), at
	}
	p.note(m, v, at)
}

// end is told of a watch that has ended.
func (p *progress) end(m *merge) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watches, m)
	p.count()
}

func (p *progress) note(m *merge, v *view, at int64) {
	p.watches[m] = at
	if at >= p.newest {
		p.newest, p.table = at, v.table
	}
	p.count()
}

// least is the newest change that all have met.
func (p *progress) least() int64 {
	least := p.newest
	for _, at := range p.watches {
		least = min(least, at)
	}
	return least
}

// count counts the moves that all have met.
func (p *progress) count() {
	least := p.least()
	n := slices.IndexFunc(p.moving, func(at int64) bool { return at > least })
	if n < 0 {
		n = len(p.moving)
	}
	p.moves += n
	p.moving = p.moving[n:]
}
