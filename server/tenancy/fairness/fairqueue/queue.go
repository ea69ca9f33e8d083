package fairqueue

import (
	"container/heap"
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// ErrFull is returned for a flow that has as many requests waiting as it may. To be
// matched with errors.Is.
var ErrFull = errors.New("too many requests are waiting")

const (
	// tick is how often the queue looks for requests that wait for something else
	// while others wait for their seats, and how long they do before it counts.
	tick = time.Millisecond
	// certain is after how many ticks it counts that a request seems to wait without
	// saying so: what computes waits for an instant now and then.
	certain = 4
	// credit is how many seconds of service a flow can save up while it uses
	// less than the others.
	credit = 0.1
	// leastWeight is what a flow weighs at least.
	leastWeight = 0.01
	// longest is how long a request that does not say that it waits keeps a seat
	// from others at most. It may wait for one that waits for its seat.
	longest = 2 * time.Second
	// aloneAfter is when a flow is alone, after the last request of another.
	// It is short: probes of a load balancer do not count. A flow whose requests
	// last long is alone later, after as many of them as aloneRequests, but at
	// most after aloneAtLast: what it begins meanwhile is what the next request
	// of another waits for.
	aloneAfter    = 100 * time.Millisecond
	aloneRequests = 10
	aloneAtLast   = 10 * time.Second
	// forgetAfter is when an idle flow is forgotten, once there are maxFlows.
	forgetAfter = 10 * time.Second
	maxFlows    = 256
)

// Options configures a Queue.
type Options struct {
	// Seats is how many requests compute at the same time.
	Seats int
	// Share is how many of them a flow has at most while there are others that
	// have used less. Less than Seats: the next flow then finds one.
	Share int
	// Alone is how many any other flow has, at least Share.
	Alone int
	// Length is how many requests of one flow wait to begin.
	Length int
	// Inside is how many have begun and not ended, computing or waiting; 0 is any
	// number. Those that last as long as their clients like do not count.
	Inside int
	// Kept is how many bytes the requests of a flow keep in memory, see Seat.Keep; 0 is any
	// number.
	Kept int
	// Busy returns how many goroutines compute, or could if there were a processor.
	Busy func() int
	// Account is told what requests use; nil for nobody.
	Account Account
	// Weight returns how much of the service a flow has beside those of weight 1 while all ask
	// for more than there is. It is asked for each request, while the queue is locked: it must be
	// quick, and must not call the queue. Without it all weigh 1.
	Weight func(flow string) float64
}

// Work is what a request does. What there is, the Account knows.
type Work int

// Account is told what requests use. It is called while the queue is locked: it must be quick,
// and must not call the queue.
type Account interface {
	// Used adds what a request of a flow has used since it was told last: the time for which
	// it computed in a seat, and the time for which it waited for one.
	Used(flow string, work Work, computed, waited time.Duration)
}

// ForProcessors are the options for n processors. There are twice as many seats:
// what a request waits for shortly, it waits for with its seat. Beside others a flow leaves a
// processor idle, because a request that computes is not interrupted for another.
// The length is about that of upstream's queues.
func ForProcessors(n int) Options {
	return Options{Seats: 2 * n, Share: max(1, n-1), Alone: 2*n - 1, Length: 256, Inside: 128,
		Kept: 64 << 20, Busy: BusyGoroutines}
}

// Queue gives seats to requests.
type Queue struct {
	opts Options

	epoch time.Time

	mu      sync.Mutex
	virtual float64 // the seconds of service that an active flow of weight 1 has had on average
	most    float64 // what the flow with the most had used when it last began a request
	active  float64 // the weight of all flows with requests that compute or wait for a seat
	flows   map[string]*flow
	backlog flowHeap  // flows with waiting requests
	running list.List // of *Seat that is taken, the oldest first
	waiting int       // requests
	steady  int       // ticks in a row at which some requests waited for certain
	ticking bool
	last    *flow     // of the last request
	mixed   time.Time // when two requests in succession were of different flows
}

// New makes a queue.
func New(o Options) *Queue {
	return &Queue{opts: o, epoch: time.Now(), flows: map[string]*flow{}}
}

// flow is a tenant, or the clients of an address.
type flow struct {
	name    string
	weight  float64   // how much of the service it has beside those of weight 1
	used    float64   // seconds of service by its weight, in the queue's virtual time
	cost    float64   // seconds, of a request on average
	own     int       // seats
	inside  int       // requests that have not ended, with a seat or without
	begun   int       // of these, those that have begun and will end by themselves
	waiting list.List // of *Seat
	back    list.List // of *Seat whose requests began before, and go first
	ended   time.Time // when its last request did
	index   int       // in the backlog, -1 if not there
	active  bool      // it has requests that compute or wait for a seat
	kept    int       // bytes, see Seat.Keep
}

// waits reports whether requests of the flow wait for a seat.
func (f *flow) waits() bool { return f.waiting.Len()+f.back.Len() > 0 }

// due is what the flow will have used when its running requests have ended.
func (f *flow) due() float64 { return f.used + float64(f.own)*f.cost/f.weight }

// aloneAfter is when the flow is alone, after the last request of another.
func (f *flow) aloneAfter() time.Duration {
	requests := time.Duration(aloneRequests * f.cost * float64(time.Second))
	return min(max(aloneAfter, requests), aloneAtLast)
}

// Acquire waits for a seat of the flow, which must be released. It fails with
// ErrFull, or with the error of the context.
func (q *Queue) Acquire(ctx context.Context, name string) (*Seat, error) {
	q.mu.Lock()
	now := time.Now()
	f := q.flow(name, now)
	if f != q.last {
		q.last, q.mixed = f, now
	}
	s := &Seat{q: q, flow: f, users: 1}
	f.inside++
	if q.next(f) == nil && q.room(f) && q.finds(f, now) {
		q.begin(s, now, false)
		q.mu.Unlock()
		return s, nil
	}
	if f.waiting.Len() >= q.opts.Length {
		f.inside--
		q.mu.Unlock()
		return nil, ErrFull
	}
	granted := q.wait(s, &f.waiting)
	q.mu.Unlock()

	select {
	case <-granted:
		return s, nil
	case <-ctx.Done():
		s.Release()
		return nil, ctx.Err()
	}
}

// wait puts a request among those that wait for a seat. The queue is locked.
func (q *Queue) wait(s *Seat, in *list.List) (granted <-chan struct{}) {
	s.granted, s.in, s.asked = make(chan struct{}), in, time.Now()
	s.element = in.PushBack(s)
	q.waiting++
	q.place(s.flow)
	q.startTicking()
	return s.granted
}

// leaves takes a request out of those that wait for a seat, with or without one.
func (q *Queue) leaves(s *Seat) {
	s.in.Remove(s.element)
	close(s.granted)
	s.in, s.element, s.granted = nil, nil, nil
	q.waiting--
}

// flow finds or makes a flow. What it did not use while it was idle is lost, but
// for the credit.
func (q *Queue) flow(name string, now time.Time) *flow {
	f := q.flows[name]
	if f == nil {
		if len(q.flows) >= maxFlows {
			q.forget(now)
		}
		f = &flow{name: name, index: -1, weight: 1}
		q.flows[name] = f
	}
	q.wake(f)
	q.weigh(f)
	return f
}

// weigh has the flow weigh what it should by now.
func (q *Queue) weigh(f *flow) {
	if q.opts.Weight == nil {
		return
	}
	was := f.weight
	if f.weight = max(q.opts.Weight(f.name), leastWeight); f.weight == was {
		return
	}
	if f.active {
		q.active += f.weight - was
	}
	if f.index >= 0 {
		heap.Fix(&q.backlog, f.index)
	}
}

func (q *Queue) wake(f *flow) {
	if !f.active {
		f.used = max(f.used, q.virtual-credit)
	}
}

func (q *Queue) forget(now time.Time) {
	for name, f := range q.flows {
		if f.inside == 0 && now.Sub(f.ended) > forgetAfter {
			delete(q.flows, name)
		}
	}
}

// fits reports whether a request of the flow can begin.
func (q *Queue) fits(f *flow, now time.Time) bool {
	share := q.opts.Share
	if now.Sub(q.mixed) > f.aloneAfter() || f.used < q.most-credit/2 { // or it has used less than others
		share = max(share, q.opts.Alone)
	}
	return q.running.Len() < q.opts.Seats && f.own < share
}

// room reports whether another request of the flow may begin.
func (q *Queue) room(f *flow) bool { return q.opts.Inside == 0 || f.begun < q.opts.Inside }

// next is the request of the flow that begins or comes back next, nil if none may.
func (q *Queue) next(f *flow) *list.Element {
	if back := f.back.Front(); back != nil || !q.room(f) {
		return back
	}
	return f.waiting.Front()
}

// finds reports whether a request of the flow can begin, if others that say that
// they wait give up their seats.
func (q *Queue) finds(f *flow, now time.Time) bool {
	var next *list.Element
	for e := q.running.Front(); e != nil && !q.fits(f, now); e = next {
		next = e.Next()
		s := e.Value.(*Seat)
		if full := q.running.Len() >= q.opts.Seats; (full || s.flow == f) && s.lose(now, true) {
			q.vacate(s, now)
		}
	}
	return q.fits(f, now)
}

// begin gives a seat. Passed says that flows wait which have used less and may have none now.
func (q *Queue) begin(s *Seat, now time.Time, passed bool) {
	f := s.flow
	if !s.counts && !s.endless {
		s.counts = true
		f.begun++
	}
	s.extra = passed || len(q.backlog) > 0 && q.backlog[0].used < f.used
	if !s.extra {
		q.virtual = max(q.virtual, f.used)
	}
	q.most = max(q.most, f.used)
	s.began = now
	s.waited.Store(0)
	s.told = 0
	s.element = q.running.PushBack(s)
	s.state.And(^lost)
	f.own++
	q.place(f)
}

// vacate takes the seat from a request, and charges its flow for the time in which
// it computed.
func (q *Queue) vacate(s *Seat, now time.Time) {
	q.running.Remove(s.element)
	s.element = nil
	q.tell(s, now)
	f, took := s.flow, s.computed(now).Seconds()
	f.used += took / f.weight
	f.cost += (took - f.cost) / 8
	if !s.extra {
		q.virtual += took / max(q.active, f.weight)
	}
	f.own--
	q.place(f)
}

// tell tells what a request has used that has a seat.
func (q *Queue) tell(s *Seat, now time.Time) {
	if q.opts.Account == nil {
		return
	}
	took := s.computed(now)
	q.opts.Account.Used(s.flow.name, s.work, max(0, took-s.told), s.slept)
	s.told, s.slept = max(s.told, took), 0
}

// Tell tells the account what the requests have used that compute at the moment. All others
// have told.
func (q *Queue) Tell() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for e := q.running.Front(); e != nil; e = e.Next() {
		q.tell(e.Value.(*Seat), now)
	}
}

// place puts a flow where it belongs in the backlog, and among the active ones.
func (q *Queue) place(f *flow) {
	waits := f.waits()
	if active := waits || f.own > 0; active != f.active {
		f.active = active
		if active {
			q.active += f.weight
		} else {
			q.active -= f.weight
		}
	}
	switch {
	case waits && f.index < 0:
		heap.Push(&q.backlog, f)
	case waits:
		heap.Fix(&q.backlog, f.index)
	case f.index >= 0:
		heap.Remove(&q.backlog, f.index)
	}
}

// dispatch gives free seats to the flow that has used least and does not have its
// share.
func (q *Queue) dispatch(now time.Time) {
	var full []*flow
	for len(q.backlog) > 0 && q.running.Len() < q.opts.Seats {
		f := q.backlog[0]
		next := q.next(f)
		if !q.fits(f, now) || next == nil {
			full = append(full, heap.Pop(&q.backlog).(*flow))
			continue
		}
		s := next.Value.(*Seat)
		q.leaves(s)
		s.slept += now.Sub(s.asked)
		q.begin(s, now, len(full) > 0)
	}
	for _, f := range full {
		q.place(f)
	}
}

// sweep takes seats from requests that do not compute: from those that say so, and
// from the oldest of the others as many as there are more of them than goroutines
// that compute or could. So many wait for certain, for something inside of upstream.
func (q *Queue) sweep(now time.Time) {
	var silent []*Seat
	var next *list.Element
	for e := q.running.Front(); e != nil; e = next {
		next = e.Next()
		s := e.Value.(*Seat)
		switch {
		case s.lose(now, true):
			q.vacate(s, now)
		case now.Sub(s.began) >= longest:
			s.lose(now, false)
			q.vacate(s, now)
		case !s.waits() && now.Sub(s.began) >= tick:
			silent = append(silent, s)
		}
	}
	surplus := len(silent) - q.opts.Busy()
	if surplus <= 0 {
		q.steady = 0
		return
	}
	if q.steady++; q.steady < certain {
		return
	}
	q.steady = 0
	for _, s := range silent[:min(surplus, len(silent))] {
		s.lose(now, false)
		q.vacate(s, now)
	}
}

// startTicking sweeps for as long as requests wait.
func (q *Queue) startTicking() {
	if q.ticking {
		return
	}
	q.ticking = true
	var again func()
	again = func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.waiting == 0 {
			q.ticking, q.steady = false, 0
			return
		}
		now := time.Now()
		q.sweep(now)
		q.dispatch(now)
		time.AfterFunc(tick, again)
	}
	time.AfterFunc(tick, again)
}

// flowHeap orders flows by what they will have used.
type flowHeap []*flow

func (h flowHeap) Len() int           { return len(h) }
func (h flowHeap) Less(i, j int) bool { return h[i].due() < h[j].due() }
func (h flowHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *flowHeap) Push(x any) {
	f := x.(*flow)
	f.index = len(*h)
	*h = append(*h, f)
}

// Pop implements heap.Interface.
func (h *flowHeap) Pop() any {
	old := *h
	f := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	f.index = -1
	return f
}
