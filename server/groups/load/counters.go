package load

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// window is how long what was counted weighs in a rate: it has decayed to a third
	// by then.
	window = 10 * time.Minute
	// maxTenants are counted at a time. The rates of others are 0 until one of these has
	// asked for nothing for a while.
	maxTenants = 10_000
	// Who has less a second than these is forgotten.
	leastWrites, leastBytes = 0.001, 1
)

// Rate is what a tenant asks for in a second.
type Rate struct {
	// Writes are objects of it that are created, changed or deleted, by whomever.
	Writes float64 `json:"writes"`
	// WatchBytes are sent to watches that are addressed to its space.
	WatchBytes float64 `json:"watchBytes"`
}

// Add adds another rate.
func (r *Rate) Add(o Rate) {
	r.Writes += o.Writes
	r.WatchBytes += o.WatchBytes
}

// Rates are those of tenants, by name.
type Rates map[string]Rate

// Counters count for one server. A nil one counts nothing.
type Counters struct {
	mu      sync.RWMutex
	tenants map[string]*counter
	most    int
}

// counter is of one tenant. The numbers are since the rate was reckoned last.
type counter struct {
	writes, bytes atomic.Int64
	rate          Rate
}

// New makes Counters that have counted nothing yet.
func New() *Counters { return &Counters{tenants: map[string]*counter{}, most: maxTenants} }

// Wrote counts a write of an object of a tenant, who must exist.
func (c *Counters) Wrote(tenant string) {
	if t := c.of(tenant); t != nil {
		t.writes.Add(1)
	}
}

// Sent counts bytes that went to a watch of a tenant, who must exist.
func (c *Counters) Sent(tenant string, bytes int) {
	if t := c.of(tenant); t != nil {
		t.bytes.Add(int64(bytes))
	}
}

// Forget drops what is known of a tenant that is gone.
func (c *Counters) Forget(tenant string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tenants, tenant)
}

// of is the counter of a tenant, nil if it is not counted.
func (c *Counters) of(tenant string) *counter {
	if c == nil {
		return nil
	}
	c.mu.RLock()
	t := c.tenants[tenant]
	c.mu.RUnlock()
	if t != nil {
		return t
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tenants[tenant]; t != nil || len(c.tenants) >= c.most {
		return t
	}
	t = &counter{}
	c.tenants[strings.Clone(tenant)] = t // it may be a piece of the path of a request
	return t
}

// resume gives a tenant the rate that it had.
func (c *Counters) resume(tenant string, r Rate) {
	if t := c.of(tenant); t != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		t.rate = r
	}
}

// reckon is the rates of all tenants, when the last call was some time ago.
func (c *Counters) reckon(since time.Duration) Rates {
	c.mu.Lock()
	defer c.mu.Unlock()
	seconds := max(since.Seconds(), 1e-3)
	keeps := math.Exp(-seconds / window.Seconds())
	next := func(rate float64, n int64) float64 { return rate*keeps + float64(n)/seconds*(1-keeps) }
	rates := Rates{}
	for name, t := range c.tenants {
		t.rate.Writes = next(t.rate.Writes, t.writes.Swap(0))
		t.rate.WatchBytes = next(t.rate.WatchBytes, t.bytes.Swap(0))
		if t.rate.Writes < leastWrites && t.rate.WatchBytes < leastBytes {
			delete(c.tenants, name)
			continue
		}
		rates[name] = t.rate
	}
	return rates
}
