package access

import (
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// turns have the accesses of each flow worked on one after the other, and one flow after the other: what is slow in
// the space of one tenant keeps one worker, whatever that tenant has.
type turns struct {
	// pace is how long a flow rests after one of its accesses.
	pace time.Duration
	// queue has the flows that have something to do.
	queue workqueue.TypedDelayingInterface[string]

	mu    sync.Mutex
	flows map[string]*flow
}

// flow is what a flow has to do.
type flow struct {
	keys []string
	// next is when it can have another one worked on.
	next time.Time
}

func newTurns(pace time.Duration) *turns {
	return &turns{pace: pace, queue: workqueue.NewTypedDelayingQueue[string](), flows: map[string]*flow{}}
}

// add has an access worked on when it is the turn of its flow.
func (t *turns) add(of, key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.flows[of]
	if f == nil {
		f = &flow{}
		t.flows[of] = f
	}
	if !slices.Contains(f.keys, key) {
		f.keys = append(f.keys, key)
	}
	t.queue.AddAfter(of, time.Until(f.next))
}

// drop takes an access out that is gone: its turn would be one for nothing.
func (t *turns) drop(of, key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.flows[of]; f != nil {
		f.keys = slices.DeleteFunc(f.keys, func(has string) bool { return has == key })
	}
}

// get waits for an access. done has to be called with its flow. It returns false when there will be no more.
func (t *turns) get() (of, key string, more bool) {
	for {
		of, stop := t.queue.Get()
		if stop {
			return "", "", false
		}
		if key, ok := t.take(of); ok {
			return of, key, true
		}
		t.queue.Done(of)
	}
}

// take is the next access of a flow, none if it rests or has none.
func (t *turns) take(of string) (key string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.flows[of]
	if f == nil {
		return "", false
	}
	if rest := time.Until(f.next); rest > 0 {
		t.queue.AddAfter(of, rest)
		return "", false
	}
	if len(f.keys) == 0 {
		delete(t.flows, of)
		return "", false
	}
	key = f.keys[0]
	f.keys = slices.Delete(f.keys, 0, 1)
	return key, true
}

// done ends the turn of a flow.
func (t *turns) done(of string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flows[of].next = time.Now().Add(t.pace)
	t.queue.AddAfter(of, t.pace) // also to be forgotten
	t.queue.Done(of)
}

// lane is accesses that others do not wait for: those of the system space, or those that tenants made.
type lane struct {
	// queue has those that something happened to, or that it is time for.
	queue workqueue.TypedRateLimitingInterface[string]
	turns *turns
	// limit bounds one try.
	limit time.Duration
}

func newLane(pace, limit, maxWait time.Duration) *lane {
	return &lane{turns: newTurns(pace), limit: limit, queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](minWait, maxWait))}
}

// sort gives what is in the queue to the flows that it is of, until that is shut down. What is gone waits in none: so
// a flow is no longer than what is there, however fast its accesses are made and deleted.
func (l *lane) sort(flowOf func(key string) (of string, there bool)) {
	for {
		key, stop := l.queue.Get()
		if stop {
			return
		}
		if of, there := flowOf(key); there {
			l.turns.add(of, key)
		} else {
			l.turns.drop(of, key)
			l.queue.Forget(key)
		}
		l.queue.Done(key)
	}
}

func (l *lane) shutDown() {
	l.queue.ShutDown()
	l.turns.queue.ShutDown()
}
