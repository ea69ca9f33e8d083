package gate

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/a4s-io/a4s/internal/space"
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
)

// Queue is the work queue of a controller.
type Queue interface {
	// Depth is how many keys wait in it for a worker, and Added how many were ever
	// put into it.
	Depth() int
	Added() int
}

// Gate is in front of one controller.
type Gate struct {
	ctx     context.Context
	workers int

	mu      sync.Mutex
	queue   Queue // nil until the controller is made
	tenants map[string]*tenant
	turns   []*tenant // those with events that wait, the next one first
	passed  time.Time // when the last of them passed
	pumping bool

	// requests are those of the controller that have no answer, by tenant. Handlers may
	// make some, under mu.
	requestsMu sync.Mutex
	requests   map[string]int
}

// tenant is one with events that wait, or that has keys in the queue.
type tenant struct {
	name    string
	waiting []*event
	updates map[object]*event // the last event of an object that waits, if that is an update
	// keys are how many of the tenant's events have put a key into the queue that was
	// not handed out when Added was until.
	keys, until int
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
	return &Gate{ctx: ctx, workers: max(workers, 2), tenants: map[string]*tenant{}, requests: map[string]int{}}
}

// Attach tells of the queue of the controller. What is in it already counts as nobody's.
func (g *Gate) Attach(q Queue) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = &since{Queue: q, depth: q.Depth()}
}

// since is a queue without the keys that an earlier controller of this process has
// left, in one of the same name.
type since struct {
	Queue
	depth int
}

func (s *since) Depth() int { return max(0, s.Queue.Depth()-s.depth) }

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
	for n := 0; n < atOnce && len(g.turns) > 0; n++ {
		depth, handed := g.look()
		if depth >= g.workers {
			break
		}
		free := g.free(handed)
		i := slices.IndexFunc(g.turns, func(t *tenant) bool {
			own := g.load(t, handed)
			return own == 0 || own < free
		})
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
	if after := g.queue.Added(); after != before {
		t.keys, t.until = t.keys+1, after
		g.tenants[t.name] = t
	} else if len(t.waiting) == 0 && t.keys == 0 {
		delete(g.tenants, t.name)
	}
}

// look reads how many keys wait in the queue, and how many it has handed out.
func (g *Gate) look() (depth, handed int) {
	added := g.queue.Added()
	depth = g.queue.Depth()
	return depth, added - depth
}

// ready reports whether an event of a tenant of whose events none waits can pass: the queue
// is shorter than there are workers, and the tenant has nothing to do in the controller, or
// less than there are free workers.
func (g *Gate) ready(t *tenant) bool {
	depth, handed := g.look()
	if depth >= g.workers {
		return false
	}
	own := g.load(t, handed)
	return own == 0 || own < g.free(handed)
}

// free is how many workers no tenant has something to do for. Each tenant is counted up to
// half of them.
func (g *Gate) free(handed int) int {
	free := g.workers
	for name, t := range g.tenants {
		n := g.load(t, handed)
		if n == 0 && len(t.waiting) == 0 {
			delete(g.tenants, name)
		}
		free -= min(n, g.workers/2)
	}
	g.requestsMu.Lock()
	defer g.requestsMu.Unlock()
	for name, n := range g.requests {
		if g.tenants[name] == nil {
			free -= min(n, g.workers/2)
		}
	}
	return free
}

// load is how much a tenant has to do in the controller: keys in the queue, and requests.
func (g *Gate) load(t *tenant, handed int) int {
	if handed >= t.until {
		t.keys = 0 // the queue is first in, first out
	}
	g.requestsMu.Lock()
	defer g.requestsMu.Unlock()
	return t.keys + g.requests[t.name]
}

// began counts a request of the controller about a namespace, until ended is called.
func (g *Gate) began(namespace string) (ended func()) {
	name, _ := space.SplitNamespace(namespace)
	g.requestsMu.Lock()
	defer g.requestsMu.Unlock()
	g.requests[name]++
	return func() {
		g.requestsMu.Lock()
		defer g.requestsMu.Unlock()
		if g.requests[name]--; g.requests[name] == 0 {
			delete(g.requests, name)
		}
	}
}
