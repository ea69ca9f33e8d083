package admission

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// computeFor is how long the expressions of a tenant's policies and hooks may compute in
	// all about one request, while other requests wait for a processor. Upstream bounds each
	// binding of a policy by itself, and there can be any number of them.
	computeFor = time.Second
	// computeTick is how often it is looked at.
	computeTick = 50 * time.Millisecond
)

// longComputing says that the time to compute is over.
type longComputing time.Duration

// Error implements error.
func (l longComputing) Error() string {
	return fmt.Sprintf("the CEL expressions of the space's admission policies and webhooks computed for longer than "+
		"%s about this request: make them fewer or simpler, or have them match less", time.Duration(l))
}

// computing is the time that a tenant's admission has to compute about one request, by all
// plugins together. What waits for a hook does not compute. A tick that comes late counts
// once, so what is slow only because the server has other things to do is not charged for
// that.
type computing struct {
	mu    sync.Mutex
	most  time.Duration // zero before the first plugin runs
	left  time.Duration
	since time.Time // the last tick
	calls int       // hooks that are waited for
	timer *time.Timer
}

// run has a plugin answer, with a context that ends when the time is over. Then the error
// is longComputing, whatever the plugin says: it may have passed over what there was left.
// The plugins of a request run one after the other.
func (c *computing) run(ctx context.Context, most time.Duration, plugin func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.mu.Lock()
	if c.most == 0 {
		c.most, c.left = most, most
	}
	c.since = time.Now()
	c.timer = time.AfterFunc(computeTick, func() { c.tick(cancel) })
	if c.left <= 0 {
		cancel(longComputing(c.most))
	}
	c.mu.Unlock()
	err := plugin(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
	c.timer = nil
	c.spend()
	if c.left <= 0 {
		return longComputing(c.most)
	}
	return err
}

func (c *computing) tick(cancel context.CancelCauseFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil {
		return // it has answered
	}
	c.spend()
	if c.left <= 0 {
		cancel(longComputing(c.most))
		return
	}
	c.timer.Reset(computeTick)
}

// spend charges for the time since the last tick.
func (c *computing) spend() {
	now := time.Now()
	if c.calls == 0 {
		c.left -= min(now.Sub(c.since), computeTick)
	}
	c.since = now
}

// wait says that a hook is waited for, until the returned function is called.
func (c *computing) wait() (answered func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spend()
	c.calls++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.spend()
		c.calls--
	})
}

// over reports whether there is no time left.
func (c *computing) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most > 0 && c.left <= 0
}
