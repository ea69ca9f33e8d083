package gate

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// tick is how often a gate looks whether events that wait can pass.
	tick = 10 * time.Millisecond
	// atOnce is how many events pass at a tick at most: handlers of events that
	// come meanwhile wait for them.
	atOnce = 256
	// atLeast is how long none of the events that wait has passed when one passes in
	// any case, so that no wrong count stops a controller.
	atLeast = time.Second
	// fewTenants is how many may be kept without looking for those that need not be.
	fewTenants = 64
)

// Queue is the work queue of a controller.
type Queue interface {
	// Depth is how many keys wait in it for a worker, or for the end of the work on the same
	// key.
	Depth() int
	// Added is how many keys were ever put into it, Handed how many workers were given, and
	// Done how many they have done with.
	Added() int
	Handed() int
	Done() int
}

// Gate is in front of one controller.
type Gate struct {
	ctx     context.Context
	workers int

	mu      sync.Mutex
	queue   Queue // nil until the controller is made
	tenants map[string]*tenant
	prune   int       // how many tenants there are when they are gone through again
	turns   []*tenant // those with events that wait, the next one first
	passed  time.Time // when the last of them passed
	pumping bool

	// requests are those of the controller that have no answer. Handlers may make some,
	// under mu.
	requests requests
}

// tenant is one with events that wait, or that has keys in the queue.
type tenant struct {
	name    string
	waiting []*event
	updates map[object]*event // the last event of an object that waits, if that is an update
	// queued is when an event has put a key into the queue last, zero if it was handed out for
	// certain since: when there is a worker without work later, or when Handed is until.
	queued time.Time
	until  int
}

// object is one of an informer.
type object struct {
	of              *handler
	namespace, name string
}

// event waits for its turn.
type event struct {
	of   object
	old  any // of an update
	obj  any
	tell func(*event)
}

// New makes the gate of a controller with so many workers. It lets everything pass
// until it is attached, and ends with ctx.
func New(ctx context.Context, workers int) *Gate {
	return &Gate{ctx: ctx, workers: max(workers, 2), tenants: map[string]*tenant{}, prune: fewTenants}
}

// Attach tells of the queue of the controller. What is in it already counts as nobody's.
func (g *Gate) Attach(q Queue) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = &since{q, q.Depth(), q.Handed() - q.Done()}
}

// since is a queue without the keys that an earlier controller of this process has
// left, in one of the same name.
type since struct {
	Queue
	depth, undone int
}

func (s *since) Depth() int { return max(0, s.Queue.Depth()-s.depth) }
func (s *since) Done() int  { return s.Queue.Done() + s.undone }

// pass tells of an event, at once or in its turn.
func (g *Gate) pass(name string, e *event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tenants[name]
	if t == nil {
		t = &tenant{name: name}
	}
	if g.queue == nil || len(t.waiting) == 0 && g.ready(t) {
		g.tell(t, e)
		return
	}
	g.wait(t, e)
}

// wait puts an event among those that wait.
func (g *Gate) wait(t *tenant, e *event) {
	if earlier := t.updates[e.of]; earlier != nil && e.old != nil {
		earlier.obj = e.obj
		return
	}
	if len(t.waiting) == 0 {
		t.updates = map[object]*event{}
		g.tenants[t.name] = t
		g.turns = append(g.turns, t)
		if len(g.turns) == 1 {
			g.passed = time.Now()
		}
	}
	t.waiting = append(t.waiting, e)
	delete(t.updates, e.of)
	if e.old != nil {
		t.updates[e.of] = e
	}
	if !g.pumping {
		g.pumping = true
		go g.pump()
	}
}

// pump lets events pass while there are some that wait.
func (g *Gate) pump() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for g.some(time.Now()) {
		select {
		case <-ticker.C:
		case <-g.ctx.Done():
			return
		}
	}
}

// some lets some events pass, and reports whether others wait.
func (g *Gate) some(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.turns) > 0 && now.Sub(g.passed) >= atLeast {
		g.next(0, now)
	}
	for n := 0; n < atOnce; n++ {
		i := slices.IndexFunc(g.turns, g.ready)
		if i < 0 {
			break
		}
		g.next(i, now)
	}
	g.pumping = len(g.turns) > 0
	return g.pumping
}

// next tells of the first event of a tenant, whose next turn comes after those of all
// others.
func (g *Gate) next(i int, now time.Time) {
	t := g.turns[i]
	g.turns = slices.Delete(g.turns, i, i+1)
	e := t.waiting[0]
	t.waiting[0] = nil
	t.waiting = t.waiting[1:]
	if t.updates[e.of] == e {
		delete(t.updates, e.of)
	}
	if len(t.waiting) > 0 {
		g.turns = append(g.turns, t)
	} else {
		t.waiting, t.updates = nil, nil
	}
	g.passed = now
	g.tell(t, e)
}

// tell tells the controller of an event, and counts the key that it puts into the
// queue.
func (g *Gate) tell(t *tenant, e *event) {
	if g.queue == nil {
		e.tell(e)
		return
	}
	before := g.queue.Added()
	e.tell(e)
	if g.queue.Added() != before {
		t.queued, t.until = time.Now(), g.queue.Handed()+g.queue.Depth()
		g.tenants[t.name] = t
		g.forget()
	} else if len(t.waiting) == 0 && t.queued.IsZero() {
		delete(g.tenants, t.name)
	}
}

// forget drops the tenants that have nothing in the queue, once there are twice as many as were
// left the last time.
func (g *Gate) forget() {
	if len(g.tenants) < g.prune {
		return
	}
	handed := g.queue.Handed()
	for name, t := range g.tenants {
		if len(t.waiting) == 0 && handed >= t.until {
			delete(g.tenants, name)
		}
	}
	g.prune = max(fewTenants, 2*len(g.tenants))
}

// ready reports whether an event of the tenant can pass. One that has nothing to do in the
// controller finds a worker without work, or a queue that is shorter than there are workers;
// any other half of the workers without work.
func (g *Gate) ready(t *tenant) bool {
	handed, depth := g.queue.Handed(), g.queue.Depth()
	busy := handed - g.queue.Done()
	if handed >= t.until || busy < g.workers && time.Since(t.queued) > tick {
		t.queued = time.Time{}
	}
	if !t.queued.IsZero() || g.requests.some(t.name) {
		return busy+depth < g.workers/2
	}
	return busy < g.workers || depth < g.workers
}
