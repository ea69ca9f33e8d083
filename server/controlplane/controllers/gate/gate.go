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
	// mostKept is how many bytes of objects of a tenant only events keep: those that are
	// deleted, or have changed again and again. More of these events pass at once.
	mostKept = 64 << 20
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
	objects map[object]*chain // those of the events that wait
	kept    int               // bytes of objects that only events keep
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

// chain is the events of an object that wait.
type chain struct {
	events int
	last   *event
}

// event waits for its turn.
type event struct {
	of   object
	old  any // of an update
	obj  any
	tell func(*event)
	// deleted says that the object is gone, kept is how many bytes of tenant.kept it has.
	deleted bool
	kept    int
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
	if g.queue == nil || len(t.waiting) == 0 && g.ready(t, g.look()) {
		g.tell(t, e)
		return
	}
	g.wait(t, e)
}

// wait puts an event among those that wait.
func (g *Gate) wait(t *tenant, e *event) {
	c := t.objects[e.of]
	if c != nil && merge(c.last, e) {
		return
	}
	if c != nil || e.deleted {
		// The first event of an object that is there keeps nothing that would not be kept.
		if e.kept = size(e.obj); t.kept+e.kept > mostKept {
			g.passObject(t, e)
			return
		}
		t.kept += e.kept
	}
	if len(t.waiting) == 0 {
		t.objects = map[object]*chain{}
		g.tenants[t.name] = t
		g.turns = append(g.turns, t)
		if len(g.turns) == 1 {
			g.passed = time.Now()
		}
	}
	if c == nil {
		c = &chain{}
		t.objects[e.of] = c
	}
	t.waiting = append(t.waiting, e)
	c.events, c.last = c.events+1, e
	if !g.pumping {
		g.pumping = true
		go g.pump()
	}
}

// passObject tells of an event, after those of its object that wait: too much would be kept.
func (g *Gate) passObject(t *tenant, e *event) {
	var before []*event
	t.waiting = slices.DeleteFunc(t.waiting, func(w *event) bool {
		if w.of == e.of {
			before = append(before, w)
		}
		return w.of == e.of
	})
	for _, w := range before {
		t.leaves(w)
		g.tell(t, w)
	}
	if len(before) > 0 && len(t.waiting) == 0 {
		g.turns = slices.DeleteFunc(g.turns, func(other *tenant) bool { return other == t })
		t.waiting, t.objects = nil, nil
	}
	g.tell(t, e)
}

// leaves forgets an event that does not wait any more.
func (t *tenant) leaves(e *event) {
	t.kept -= e.kept
	if c := t.objects[e.of]; c.events == 1 {
		delete(t.objects, e.of)
	} else {
		c.events--
	}
}

// pump lets events pass while there are some that wait.
func (g *Gate) pump() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for g.passSome(time.Now()) {
		select {
		case <-ticker.C:
		case <-g.ctx.Done():
			return
		}
	}
}

// passSome lets some events pass, and reports whether others wait.
func (g *Gate) passSome(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.turns) > 0 && now.Sub(g.passed) >= atLeast {
		g.next(0, now)
	}
	for n := 0; n < atOnce; n++ {
		work := g.look() // once for all tenants
		i := slices.IndexFunc(g.turns, func(t *tenant) bool { return g.ready(t, work) })
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
	t.leaves(e)
	if len(t.waiting) > 0 {
		g.turns = append(g.turns, t)
	} else {
		t.waiting, t.objects = nil, nil
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

// work is what the workers have.
type work struct {
	handed, busy, depth int
}

func (g *Gate) look() work {
	handed := g.queue.Handed()
	return work{handed, handed - g.queue.Done(), g.queue.Depth()}
}

// ready reports whether an event of the tenant can pass: if it has nothing to do in the
// controller, where it has one key of the queue then, or if half of the workers are without
// work.
func (g *Gate) ready(t *tenant, w work) bool {
	if w.handed >= t.until || w.busy < g.workers && time.Since(t.queued) > tick {
		t.queued = time.Time{}
	}
	if t.queued.IsZero() && !g.requests.has(t.name) {
		return true
	}
	return w.busy+w.depth < g.workers/2
}
