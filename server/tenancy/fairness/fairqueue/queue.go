package fairqueue

import (
	"container/heap"
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// ErrFull is a flow that has as many requests waiting as it may. To be matched
// with errors.Is.
var ErrFull = errors.New("too many requests are waiting")

const (
	// tick is how often it is looked at whether processors are idle, while
	// requests wait.
	tick = time.Millisecond
	// sampleEvery bounds how often arrivals look.
	sampleEvery = tick / 4
	// credit is how much of the service time that a flow has not used it can
	// use later at once.
	credit = 0.1 // seconds
	// favour is how much less than a busy flow another must have used to have
	// its turn beside the slots: half of the credit, so that it has some left
	// when it gets it.
	favour = credit / 2
	// longest is how long a request keeps other flows from their turn at
	// most, whatever it does, and longestOwn how long it keeps its own.
	longest    = 100 * time.Millisecond
	longestOwn = time.Second
	// companyFor is how long a flow counts as present after it began
	// something.
	companyFor = time.Second
	// patience is how long a busy flow waits for an idle processor beside a
	// modest one.
	patience = 10 * time.Millisecond
	// stillPatience is how long it does so while it is to be still.
	stillPatience = 100 * time.Millisecond
	// forgetAfter is when a flow that does nothing is forgotten.
	forgetAfter = 10 * time.Second
	// maxFlows is the number of flows from which on idle ones are looked for.
	maxFlows = 256
)

// Options configures a Queue.
type Options struct {
	// Slots is how many requests compute at the same time.
	Slots int
	// Alone is how many there are of a flow that has no company. More than
	// Slots, since some of them wait for the datastore or their client, and
	// less than Burst: who comes has room.
	Alone int
	// Share is how many of them are of one flow while there are others.
	Share int
	// Burst is how many there are at most, those of flows that have used less
	// than the others included.
	Burst int
	// Length is how many requests of one flow wait.
	Length int
	// Idle says how many processors have nothing to do.
	Idle func() int
	// Stranger, if not nil, tells the flows of which nobody knows whose they
	// are. They get turns as all do, but are no company for others.
	Stranger func(flow string) bool
}

// ForProcessors are the options for so many processors. The length is about
// what upstream's queues take of one flow.
func ForProcessors(n int) Options {
	return Options{Slots: n, Alone: 3 * n, Share: max(1, n-1), Burst: 4 * n, Length: 256, Idle: IdleProcessors}
}

// Queue gives requests their turns.
type Queue struct {
	opts Options

	mu      sync.Mutex
	virtual float64 // the service time that a busy flow has had
	flows   map[string]*flow
	backlog flowHeap  // flows that could have a turn
	held    list.List // turns that occupy a slot, the oldest first
	late    list.List // turns that overran
	waiting int
	ticking bool
	sampled time.Time
	// last is the flow that began something last, and since when.
	last     *flow
	switched time.Time
	// modest is when a flow that uses little began something.
	modest time.Time
	// still is set while busy flows wait for something that they are not told.
	still bool
	// looked is when it was looked how many processors are free.
	looked time.Time
	free   int
}

// New makes a queue.
func New(o Options) *Queue {
	return &Queue{opts: o, flows: map[string]*flow{}}
}

// flow is whoever has to share.
type flow struct {
	name    string
	unknown bool      // a stranger
	used    float64   // service time, in the queue's virtual time
	cost    float64   // what a request costs on average
	own     int       // turns that count against the flow's share
	active  int       // turns that have not ended
	waiting list.List // of *Turn
	ended   time.Time
	index   int // in the backlog, -1 if not
}

// Turn is the right of a request to compute.
type Turn struct {
	q       *Queue
	flow    *flow
	ready   chan struct{}
	element *list.Element // in flow.waiting, then in q.held
	long    bool
	beside  bool
	began   time.Time
	state   state
}

type state int

const (
	waits    state = iota
	occupies       // a slot
	// overruns: it has been at it for so long that other flows do not wait
	// for it any more; its own flow does.
	overruns
	detached // it waits for something itself
	ended
)

// Acquire waits for a turn of the flow with this name, which must be released.
// It fails when too many wait already, or when the context ends. A long request
// is one that lasts as long as the client likes; it computes in the beginning.
func (q *Queue) Acquire(ctx context.Context, name string, long bool) (*Turn, error) {
	q.mu.Lock()
	now := time.Now()
	f := q.flow(name, now)
	t := &Turn{q: q, flow: f, long: long}
	if f.waiting.Len() == 0 {
		if !q.fits(f, now) {
			q.sample(now)
		}
		if q.fits(f, now) {
			q.begin(t, now)
			q.mu.Unlock()
			return t, nil
		}
	}
	if f.waiting.Len() >= q.opts.Length {
		q.mu.Unlock()
		return nil, ErrFull
	}
	t.ready = make(chan struct{})
	t.element = f.waiting.PushBack(t)
	q.waiting++
	q.place(f)
	q.startTicking()
	q.mu.Unlock()

	select {
	case <-t.ready:
		return t, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	if t.state != waits {
		q.mu.Unlock()
		t.Release() // it came too late
		return nil, ctx.Err()
	}
	t.state = ended
	f.waiting.Remove(t.element)
	f.ended = time.Now()
	q.waiting--
	q.place(f)
	q.mu.Unlock()
	return nil, ctx.Err()
}

// Release ends the turn. It may be called more than once.
func (t *Turn) Release() {
	q := t.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.state == ended {
		return
	}
	now := time.Now()
	q.leave(t, now, ended)
	q.dispatch(now)
}

// Beside tells that the turn is of a busy flow beside a modest one.
func (t *Turn) Beside() bool { return t.beside }

// Charge adds to what the turn's flow has used what was done for it outside of
// its turns.
func (t *Turn) Charge(d time.Duration) {
	q := t.q
	q.mu.Lock()
	defer q.mu.Unlock()
	t.flow.used += d.Seconds()
	q.place(t.flow)
}

// Move makes the turn one of another flow, which bears its costs.
func (t *Turn) Move(name string) {
	q := t.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.flow.name == name || t.state == ended {
		return
	}
	now := time.Now()
	from, to := t.flow, q.flow(name, now)
	t.flow = to
	from.active--
	to.active++
	from.ended = now
	if t.state == occupies || t.state == overruns {
		from.own--
		to.own++
	}
	q.place(from)
	q.place(to)
	q.dispatch(now)
}

// flow finds or makes a flow. One that was idle gets a credit, but not more.
func (q *Queue) flow(name string, now time.Time) *flow {
	f := q.flows[name]
	if f == nil {
		if len(q.flows) >= maxFlows {
			q.forget(now)
		}
		f = &flow{name: name, unknown: q.opts.Stranger != nil && q.opts.Stranger(name), index: -1}
		q.flows[name] = f
	}
	f.used = max(f.used, q.virtual-credit)
	return f
}

func (q *Queue) forget(now time.Time) {
	for name, f := range q.flows {
		if f.own == 0 && f.waiting.Len() == 0 && now.Sub(f.ended) > forgetAfter {
			delete(q.flows, name)
		}
	}
}

// fits tells whether a request of the flow could begin.
func (q *Queue) fits(f *flow, now time.Time) bool {
	if q.favours(f) {
		return q.held.Len() < q.opts.Burst
	}
	slots, own := q.limits(f, now)
	return q.held.Len() < slots && f.own < own && q.calm(f, now)
}

// Contended tells whether busy flows wait beside a modest one.
func (q *Queue) Contended() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting > 0 && q.besideModest(time.Now())
}

// besideModest tells whether there is a flow that uses little.
func (q *Queue) besideModest(now time.Time) bool { return now.Sub(q.modest) <= companyFor }

// Still has busy flows begin nothing beside a modest one while f runs, for a
// while: f takes what idle processors there are.
func (q *Queue) Still(f func()) {
	q.mu.Lock()
	q.still = true
	q.mu.Unlock()
	f()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.still = false
	q.dispatch(time.Now())
}

// favours tells whether a flow has used clearly less than the busy ones.
func (q *Queue) favours(f *flow) bool { return f.due()+favour < q.virtual }

// calm tells whether one more request of a busy flow leaves modest ones alone.
// What it costs outside of its turn, in TLS, HTTP/2 and garbage, is not known,
// so beside them it waits until a processor has nothing to do. One that asks
// for one thing at a time is no flood, even if it has used more than a flood of
// requests that are cheap in their turn.
func (q *Queue) calm(f *flow, now time.Time) bool {
	switch {
	case !q.besideModest(now), f.own == 0 && f.waiting.Len() == 0:
		return true
	case q.still:
		return now.Sub(f.ended) > stillPatience
	}
	return now.Sub(f.ended) > patience || q.idle(now) > 0
}

// idle is how many processors have nothing to do; turns that begin at the same
// moment each take one.
func (q *Queue) idle(now time.Time) int {
	if !q.looked.Equal(now) {
		q.looked, q.free = now, q.opts.Idle()
	}
	return q.free
}

// due is what a flow will have used when its requests have ended.
func (f *flow) due() float64 { return f.used + float64(f.own)*f.cost }

// limits are how many turns there may be for one more of a flow, and how many
// of them its own.
func (q *Queue) limits(f *flow, now time.Time) (all, own int) {
	if q.last == f && now.Sub(q.switched) > companyFor {
		return q.opts.Alone, q.opts.Alone
	}
	return q.opts.Slots, q.opts.Share
}

// begin gives a turn.
func (q *Queue) begin(t *Turn, now time.Time) {
	f := t.flow
	if q.last != f && !f.unknown {
		q.last, q.switched = f, now
	}
	if q.favours(f) && !f.unknown {
		q.modest = now
	}
	t.beside = q.besideModest(now) && !q.favours(f) && (t.ready != nil || f.own > 0)
	q.free--
	q.virtual = max(q.virtual, f.used)
	t.state, t.began = occupies, now
	f.own++
	f.active++
	t.element = q.held.PushBack(t)
}

// leave changes the state of a turn that was given.
func (q *Queue) leave(t *Turn, now time.Time, to state) {
	f := t.flow
	switch t.state {
	case occupies:
		q.held.Remove(t.element)
	case overruns:
		q.late.Remove(t.element)
	}
	if t.state == occupies {
		took := now.Sub(t.began).Seconds()
		f.used += took
		f.cost += (took - f.cost) / 8
	}
	if (t.state == occupies || t.state == overruns) && to != overruns {
		f.own--
	}
	if to == ended {
		f.active--
		f.ended = now
	}
	if to == overruns {
		t.element = q.late.PushBack(t)
	}
	t.state = to
	q.place(f)
}

// place puts a flow where it belongs in the backlog.
func (q *Queue) place(f *flow) {
	could := f.waiting.Len() > 0
	switch {
	case could && f.index < 0:
		heap.Push(&q.backlog, f)
	case could:
		heap.Fix(&q.backlog, f.index)
	case f.index >= 0:
		heap.Remove(&q.backlog, f.index)
	}
}

// dispatch gives turns to those who wait, to the flow first that has used
// least.
func (q *Queue) dispatch(now time.Time) {
	var full []*flow // have their share
	for len(q.backlog) > 0 && q.held.Len() < q.opts.Burst {
		f := q.backlog[0]
		if !q.fits(f, now) {
			if q.held.Len() >= q.opts.Slots {
				break // nobody has used less
			}
			full = append(full, heap.Pop(&q.backlog).(*flow))
			continue
		}
		t := f.waiting.Remove(f.waiting.Front()).(*Turn)
		q.waiting--
		q.begin(t, now)
		q.place(f)
		close(t.ready)
	}
	for _, f := range full {
		q.place(f)
	}
}

// sample takes the slots from turns that do not compute: as many as there are
// idle processors, the oldest first.
func (q *Queue) sample(now time.Time) {
	for e := q.held.Front(); e != nil; e = q.held.Front() {
		t := e.Value.(*Turn)
		if now.Sub(t.began) < longest {
			break
		}
		if t.long {
			q.leave(t, now, detached)
			continue
		}
		q.leave(t, now, overruns)
	}
	for e := q.late.Front(); e != nil && now.Sub(e.Value.(*Turn).began) >= longestOwn; e = q.late.Front() {
		q.leave(e.Value.(*Turn), now, detached)
	}
	if now.Sub(q.sampled) < sampleEvery {
		return
	}
	q.sampled = now
	for n := q.opts.Idle(); n > 0; n-- {
		e := q.late.Front()
		if e == nil {
			e = q.held.Front()
		}
		if e == nil || now.Sub(e.Value.(*Turn).began) < tick {
			return
		}
		q.leave(e.Value.(*Turn), now, detached)
	}
}

// startTicking looks again and again while requests wait.
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
		q.sample(now)
		q.dispatch(now)
		time.AfterFunc(tick, again)
	}
	time.AfterFunc(tick, again)
}

// flowHeap orders by what was used.
type flowHeap []*flow

func (h flowHeap) Len() int           { return len(h) }
func (h flowHeap) Less(i, j int) bool { return h[i].due() < h[j].due() }
func (h flowHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *flowHeap) Push(x any) {
	f := x.(*flow)
	f.index = len(*h)
	*h = append(*h, f)
}

func (h *flowHeap) Pop() any {
	old := *h
	f := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	f.index = -1
	return f
}
