package charts

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// halfLife is how long half of what a tenant had counts.
const halfLife = 10 * time.Minute

// turns says whose HelmChart is looked at next: that of the tenant that had the least time lately. A tenant has one
// turn at a time, so that one with a thousand HelmCharts that take as long as they may has one place of those that
// there are.
type turns struct {
	mu      sync.Mutex
	waiting map[string][]types.NamespacedName // by tenant, the first one is next
	known   map[types.NamespacedName]bool     // those that wait
	busy    map[string]bool
	had     map[string]time.Duration // lately
	halved  time.Time
	changed chan struct{} // is closed when somebody can have a turn who could not before
}

func newTurns(now time.Time) *turns {
	return &turns{waiting: map[string][]types.NamespacedName{}, busy: map[string]bool{},
		known: map[types.NamespacedName]bool{},
		had:   map[string]time.Duration{}, halved: now, changed: make(chan struct{})}
}

// add has a HelmChart of a tenant wait for its turn.
func (t *turns) add(tenant string, key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[key] {
		return
	}
	t.known[key] = true
	t.waiting[tenant] = append(t.waiting[tenant], key)
	t.wake()
}

// drop has a HelmChart wait no longer.
func (t *turns) drop(tenant string, key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known[key] {
		return
	}
	delete(t.known, key)
	t.waiting[tenant] = slices.DeleteFunc(t.waiting[tenant], func(one types.NamespacedName) bool { return one == key })
	if len(t.waiting[tenant]) == 0 {
		delete(t.waiting, tenant)
	}
}

func (t *turns) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// each has every turn done, until ctx ends.
func (t *turns) each(ctx context.Context, do func(tenant string, key types.NamespacedName)) {
	for tenant, key, ok := t.next(ctx); ok; tenant, key, ok = t.next(ctx) {
		began := time.Now()
		do(tenant, key)
		now := time.Now()
		t.done(tenant, now.Sub(began), now)
	}
}

// next begins a turn, whose end done is told of; false says that ctx ended.
func (t *turns) next(ctx context.Context) (tenant string, key types.NamespacedName, ok bool) {
	for ctx.Err() == nil {
		tenant, key, changed := t.begin()
		if changed == nil {
			return tenant, key, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return "", types.NamespacedName{}, false
}

// begin begins a turn, or returns what is closed when there may be one.
func (t *turns) begin() (tenant string, key types.NamespacedName, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := false
	for one := range t.waiting {
		if !t.busy[one] && (!found || t.had[one] < t.had[tenant]) {
			tenant, found = one, true
		}
	}
	if !found {
		return "", key, t.changed
	}
	key, t.waiting[tenant] = t.waiting[tenant][0], t.waiting[tenant][1:]
	if len(t.waiting[tenant]) == 0 {
		delete(t.waiting, tenant)
	}
	delete(t.known, key)
	t.busy[tenant] = true
	return tenant, key, nil
}

// done ends a turn that took so long.
func (t *turns) done(tenant string, took time.Duration, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.busy, tenant)
	t.had[tenant] += took
	for ; now.Sub(t.halved) >= halfLife; t.halved = t.halved.Add(halfLife) {
		for one, had := range t.had {
			if t.had[one] = had / 2; had < time.Second {
				delete(t.had, one)
			}
		}
	}
	t.wake()
}
