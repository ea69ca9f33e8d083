package limits

import (
	"context"
	"sync"
	"time"
)

const (
	// recountAfter is how old a count may be that lets something be created:
	// other servers create too.
	recountAfter = 10 * time.Second
	// refuseAfter is how old a count may be that refuses: what was deleted by
	// way of other servers should be of use soon.
	refuseAfter = time.Second
)

// counter is what one tenant has of something that is limited.
type counter struct {
	// gate is held for reading while something is being created, so that a
	// recount finds everything either created or not begun.
	gate sync.RWMutex

	mu         sync.Mutex
	n          int64
	counted    time.Time
	generation int64 // of the count
}

// reserve takes one of limit, or says how many are in use. What it returns in
// done must be called when the creation succeeded or failed.
func (c *counter) reserve(ctx context.Context, limit int64, count func(context.Context) (int64, error)) (done func(created bool), used int64, err error) {
	for recounted := false; ; recounted = true {
		c.gate.RLock()
		c.mu.Lock()
		age := time.Since(c.counted)
		if (age < recountAfter || recounted) && c.n < limit {
			c.n++
			c.mu.Unlock()
			return c.done, 0, nil
		}
		used := c.n
		c.mu.Unlock()
		c.gate.RUnlock()
		if age < refuseAfter || recounted {
			return nil, used, nil
		}
		if err := c.recount(ctx, count); err != nil {
			return nil, 0, err
		}
	}
}

func (c *counter) done(created bool) {
	if !created {
		c.mu.Lock()
		c.n--
		c.mu.Unlock()
	}
	c.gate.RUnlock()
}

func (c *counter) recount(ctx context.Context, count func(context.Context) (int64, error)) error {
	c.gate.Lock()
	defer c.gate.Unlock()
	c.mu.Lock()
	age := time.Since(c.counted)
	c.mu.Unlock()
	if age < refuseAfter {
		return nil // somebody else did it meanwhile
	}
	n, err := count(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n, c.counted = n, time.Now()
	c.generation++
	return nil
}

// deleting is to be called before something is deleted, and what it returns
// when it is. A deletion during which there was a recount may be in it or
// not; then it is not subtracted, which errs to the safe side until the next.
func (c *counter) deleting() (deleted func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	generation := c.generation
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.generation == generation {
			c.n--
		}
	}
}
