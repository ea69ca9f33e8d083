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
	// tick is how often the queue looks for idle processors while requests wait.
	tick = time.Millisecond
	// credit is how many seconds of service a flow can save up while it uses
	// less than the others.
	credit = 0.1
	// longest is how long a request keeps a seat from other flows at most, and
	// longestOwn how long it counts against the share of its own: what takes
	// longer waits for its client or for the datastore.
	longest    = 100 * time.Millisecond
	longestOwn = time.Second
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
	// Length is how many requests of one flow wait.
	Length int
	// Idle returns how many processors have nothing to do.
	Idle func() int
}

// ForProcessors are the options for n processors. There are twice as many seats,
// since a request waits for the datastore, too. Beside others a flow leaves a
// processor idle, because a request that computes is not interrupted for another.
// The length is about that of upstream's queues.
func ForProcessors(n int) Options {
	return Options{Seats: 2 * n, Share: max(1, n-1), Alone: 2*n - 1, Length: 256, Idle: IdleProcessors}
}

// Queue gives seats to requests.
type Queue struct {
	opts Options

	mu      sync.Mutex
	virtual float64   // the seconds of service that an active flow has had on average
	counted time.Time // up to when
	most    float64   // what the flow with the most had used when it last began a request
	active  int       // flows with requests that run or wait
	flows   map[string]*flow
	backlog flowHeap  // flows with waiting requests
	running list.List // of *Seat that count against a share, the oldest first
	taken   int       // seats
	waiting int       // requests
	ticking bool
	last    *flow     // of the last request
	mixed   time.Time // when two requests in succession were of different flows
}

// New makes a queue.
func New(o Options) *Queue {
	return &Queue{opts: o, flows: map[string]*flow{}}
}

// flow is a tenant, or the clients of an address.
type flow struct {
	used    float64   // seconds of service, in the queue's virtual time
	cost    float64   // seconds, of a request on average
	own     int       // running requests that count against the share
	waiting list.List // of *Seat
	ended   time.Time // when its last request did
	index   int       // in the backlog, -1 if not there
	active  bool      // it has requests that run or wait
}

// due is what the flow will have used when its running requests have ended.
func (f *flow) due() float64 { return f.used + float64(f.own)*f.cost }

// aloneAfter is when the flow is alone, after the last request of another.
func (f *flow) aloneAfter() time.Duration {
	requests := time.Duration(aloneRequests * f.cost * float64(time.Second))
	return min(max(aloneAfter, requests), aloneAtLast)
}

// Seat is the right of a request to compute.
type Seat struct {
	q       *Queue
	flow    *flow
	long    bool
	granted chan struct{}
	element *list.Element // in flow.waiting, then in q.running; nil in neither
	began   time.Time
	taken   bool // it counts against the seats of the queue
	ended   bool
}

// Acquire waits for a seat of the flow, which must be released. It fails with
// ErrFull, or with the error of the context. A long request is one that lasts as
// long as its client likes, and computes in the beginning only.
func (q *Queue) Acquire(ctx context.Context, name string, long bool) (*Seat, error) {
	q.mu.Lock()
	now := time.Now()
	q.count(now)
	f := q.flow(name, now)
	if f != q.last {
		q.last, q.mixed = f, now
	}
	s := &Seat{q: q, flow: f, long: long}
	if f.waiting.Len() == 0 && q.fits(f, now) {
		q.begin(s, now)
		q.mu.Unlock()
		return s, nil
	}
	if f.waiting.Len() >= q.opts.Length {
		q.mu.Unlock()
		return nil, ErrFull
	}
	s.granted = make(chan struct{})
	s.element = f.waiting.PushBack(s)
	q.waiting++
	q.place(f)
	q.startTicking()
	q.mu.Unlock()

	select {
	case <-s.granted:
		return s, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	if !s.began.IsZero() {
		q.mu.Unlock()
		s.Release() // it came too late
		return nil, ctx.Err()
	}
	s.ended = true
	f.waiting.Remove(s.element)
	f.ended = time.Now()
	q.waiting--
	q.place(f)
	q.mu.Unlock()
	return nil, ctx.Err()
}

// Release gives the seat back. It may be called more than once.
func (s *Seat) Release() {
	q := s.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.ended {
		return
	}
	now := time.Now()
	q.count(now)
	s.ended, s.flow.ended = true, now
	q.vacate(s, now)
	q.leaveShare(s)
	q.dispatch(now)
}

// Move makes the request one of another flow, which bears its costs from then on.
func (s *Seat) Move(name string) {
	q := s.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.ended {
		return
	}
	now := time.Now()
	q.count(now)
	from, to := s.flow, q.flow(name, now)
	if from == to {
		return
	}
	s.flow, from.ended = to, now
	if s.element != nil {
		from.own--
		to.own++
	}
	q.place(from)
	q.place(to)
	q.dispatch(now)
}

// count adds the service of all flows since the last time to what one has had on
// average. Without this, many flows that ask now and then would all begin with the
// same credit, and each pass one that asks all the time.
func (q *Queue) count(now time.Time) {
	if q.active > 0 {
		q.virtual += float64(q.taken) * now.Sub(q.counted).Seconds() / float64(q.active)
	}
	q.counted = now
}

// flow finds or makes a flow. What it did not use while it was idle is lost, but
// for the credit.
func (q *Queue) flow(name string, now time.Time) *flow {
	f := q.flows[name]
	if f == nil {
		if len(q.flows) >= maxFlows {
			q.forget(now)
		}
		f = &flow{index: -1}
		q.flows[name] = f
	}
	if !f.active {
		f.used = max(f.used, q.virtual-credit)
	}
	return f
}

func (q *Queue) forget(now time.Time) {
	for name, f := range q.flows {
		if f.own == 0 && f.waiting.Len() == 0 && now.Sub(f.ended) > forgetAfter {
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
	return q.taken < q.opts.Seats && f.own < share
}

func (q *Queue) begin(s *Seat, now time.Time) {
	f := s.flow
	q.virtual, q.most = max(q.virtual, f.used), max(q.most, f.used)
	s.began, s.taken = now, true
	s.element = q.running.PushBack(s)
	q.taken++
	f.own++
	q.place(f)
}

// vacate takes the seat from a request, and charges its flow for the time.
func (q *Queue) vacate(s *Seat, now time.Time) {
	if !s.taken {
		return
	}
	s.taken = false
	q.taken--
	f, took := s.flow, now.Sub(s.began).Seconds()
	f.used += took
	f.cost += (took - f.cost) / 8
	q.place(f)
}

// leaveShare takes a request out of those that count against the share of its flow.
func (q *Queue) leaveShare(s *Seat) {
	if s.element == nil {
		return
	}
	q.running.Remove(s.element)
	s.element = nil
	s.flow.own--
	q.place(s.flow)
}

// place puts a flow where it belongs in the backlog, and among the active ones.
func (q *Queue) place(f *flow) {
	waits := f.waiting.Len() > 0
	if active := waits || f.own > 0; active != f.active {
		f.active = active
		if active {
			q.active++
		} else {
			q.active--
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
	for len(q.backlog) > 0 && q.taken < q.opts.Seats {
		f := q.backlog[0]
		if !q.fits(f, now) {
			full = append(full, heap.Pop(&q.backlog).(*flow))
			continue
		}
		s := f.waiting.Remove(f.waiting.Front()).(*Seat)
		q.waiting--
		q.begin(s, now)
		close(s.granted)
	}
	for _, f := range full {
		q.place(f)
	}
}

// sweep takes seats from requests that do not compute: from those that have had
// theirs for long, and from as many of the oldest as there are idle processors.
func (q *Queue) sweep(now time.Time) {
	idle := q.opts.Idle()
	var next *list.Element
	for e := q.running.Front(); e != nil; e = next {
		next = e.Next()
		s := e.Value.(*Seat)
		age := now.Sub(s.began)
		if age < tick {
			return
		}
		waits := idle > 0
		if waits {
			idle--
		}
		if waits || age >= longest {
			q.vacate(s, now)
		}
		if waits || age >= longestOwn || s.long && age >= longest {
			q.leaveShare(s)
		}
		if idle <= 0 && age < longest {
			return
		}
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
			q.ticking = false
			return
		}
		now := time.Now()
		q.count(now)
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
