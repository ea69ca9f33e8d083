package fairqueue

import (
	"container/list"
	"context"
	"sync/atomic"
	"time"
)

// lost is set in the state of a seat that the request does not have: it was taken
// while the request waited. Below it is how many waits there are at the moment.
const lost = 1 << 32

// Seat is the right of a request to compute. All methods can be called at once, and
// those of a seat that is nil do nothing.
type Seat struct {
	q *Queue
	// state is how many waits there are, and lost. Since is when the first of them
	// began, and waited how long those before took since the seat was given, both in
	// nanoseconds.
	state, since, waited atomic.Int64

	// Guarded by the queue's lock.
	flow    *flow
	users   int           // who will release it
	granted chan struct{} // while it waits for a seat, else nil
	in      *list.List    // where it waits for one
	element *list.Element // in there, or in q.running; nil in neither
	began   time.Time
	counts  bool // among those of its flow that have begun
	// extra is set when flows that had used less waited, and could have no more seats: one of little
	// weight gets far ahead of them this way, and who comes then begins where they are.
	extra   bool
	endless bool
	ended   bool
	work    Work
	asked   time.Time     // when it began to wait for a seat
	slept   time.Duration // for seats, which the account has yet to be told
	told    time.Duration // of what it computed in this seat
	kept    int           // bytes, see Keep
}

// Hold has the seat last until it was released once more.
func (s *Seat) Hold() {
	if s == nil {
		return
	}
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	s.users++
}

// Release gives the seat back, when everybody has who holds it.
func (s *Seat) Release() {
	if s == nil {
		return
	}
	q := s.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.users--; s.users > 0 || s.ended {
		return
	}
	now := time.Now()
	s.ended, s.flow.ended = true, now
	s.flow.inside--
	s.flow.kept -= s.kept
	s.kept = 0
	s.uncount()
	switch {
	case s.granted != nil:
		q.leaves(s)
		q.place(s.flow)
	case s.element != nil:
		q.vacate(s, now)
	}
	q.dispatch(now)
}

// uncount takes the request out of those of its flow that have begun.
func (s *Seat) uncount() {
	if s.counts {
		s.counts = false
		s.flow.begun--
	}
}

// Endless says that the request lasts as long as its client likes.
func (s *Seat) Endless() {
	if s == nil {
		return
	}
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	s.endless = true
	s.uncount()
	s.q.dispatch(time.Now())
}

// Move makes the request one of another flow, which bears its costs from then on.
func (s *Seat) Move(name string) {
	if s == nil {
		return
	}
	q := s.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.ended || s.granted != nil {
		return
	}
	now := time.Now()
	from, to := s.flow, q.flow(name, now)
	if from == to {
		return
	}
	s.flow, from.ended = to, now
	from.inside--
	to.inside++
	from.kept -= s.kept
	to.kept += s.kept
	if s.counts {
		from.begun--
		to.begun++
	}
	if s.element != nil {
		from.own--
		to.own++
	}
	q.place(from)
	q.place(to)
	q.dispatch(now)
}

// Does says what the request does from now on.
func (s *Seat) Does(work Work) {
	if s == nil {
		return
	}
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	s.does(work)
}

// Meanwhile says what the request does until the returned function is called.
func (s *Seat) Meanwhile(work Work) (over func()) {
	if s == nil {
		return func() {}
	}
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	before := s.work
	s.does(work)
	return func() { s.Does(before) }
}

func (s *Seat) does(work Work) {
	if work == s.work {
		return
	}
	if now := time.Now(); s.element != nil && s.granted == nil && s.computed(now) > s.told {
		s.q.tell(s, now)
	}
	s.work = work
}

// Yield gives the seat up at once, before a wait that is long or a seat that will not
// be needed any more: what then computes begins with Need.
func (s *Seat) Yield() {
	if s == nil {
		return
	}
	q := s.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.ended || s.element == nil || s.granted != nil {
		return
	}
	now := time.Now()
	s.lose(now, false)
	q.vacate(s, now)
	q.dispatch(now)
}

// Wait runs f, which waits for something else than a processor: the seat may be
// given to others meanwhile. What comes after f and computes begins with Need.
func (s *Seat) Wait(f func()) {
	s.BeginWait()
	defer s.EndWait()
	f()
}

// BeginWait is the begin of a wait, which ends with EndWait, or with the request.
func (s *Seat) BeginWait() {
	if s == nil {
		return
	}
	if s.state.Load()&(lost-1) == 0 {
		s.since.Store(int64(time.Since(s.q.epoch)))
	}
	s.state.Add(1)
}

// EndWait ends a wait.
func (s *Seat) EndWait() {
	if s == nil {
		return
	}
	if s.state.Load()&(lost-1) == 1 {
		s.waited.Add(int64(time.Since(s.q.epoch)) - s.since.Load())
	}
	s.state.Add(-1)
}

// Need returns when the request has a seat. It waits for one if its own was taken,
// before what has not yet begun in the flow, and in no case in vain: for as long as it
// takes. Whoever calls it must hold nothing that others of its flow or of other flows
// wait for. A request that waits for something else has no need of one.
func (s *Seat) Need() {
	if s == nil || s.state.Load() != lost {
		return
	}
	q := s.q
	q.mu.Lock()
	if s.ended || s.state.Load() != lost {
		q.mu.Unlock()
		return
	}
	granted := (<-chan struct{})(s.granted)
	if granted == nil {
		now := time.Now()
		q.wake(s.flow)
		if s.flow.back.Len() == 0 && q.finds(s.flow, now) {
			q.begin(s, now, false)
			q.mu.Unlock()
			return
		}
		granted = q.wait(s, &s.flow.back)
	}
	q.mu.Unlock()
	<-granted
}

// waits reports whether the request says that it waits.
func (s *Seat) waits() bool { return s.state.Load()&(lost-1) > 0 }

// lose marks the seat as lost, if the request says that it has been waiting for a
// while, or in any case.
func (s *Seat) lose(now time.Time, waiting bool) bool {
	for {
		state := s.state.Load()
		if waiting && (state&(lost-1) == 0 || now.Sub(s.q.epoch)-time.Duration(s.since.Load()) < tick) {
			return false
		}
		if s.state.CompareAndSwap(state, state|lost) {
			return true
		}
	}
}

// computed is how long the request has had the seat, less its waits.
func (s *Seat) computed(now time.Time) time.Duration {
	waited := time.Duration(s.waited.Load())
	if s.waits() {
		waited += now.Sub(s.q.epoch) - max(time.Duration(s.since.Load()), s.began.Sub(s.q.epoch))
	}
	return max(0, now.Sub(s.began)-waited)
}

type seatKey struct{}

// With returns a context of a request that has a seat.
func With(ctx context.Context, s *Seat) context.Context { return context.WithValue(ctx, seatKey{}, s) }

// Of is the seat of a request, nil if it needs none.
func Of(ctx context.Context) *Seat {
	s, _ := ctx.Value(seatKey{}).(*Seat)
	return s
}
