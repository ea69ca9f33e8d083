package ingress

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/a4s-io/a4s/agent/ingress/proxy"
)

const (
	// namedTenants is how many tenants metrics name; the rest is other, which is no name of a tenant.
	namedTenants = 1000
	other        = "(other)"
)

// answer is what the child says, one a line as JSON: the first when it serves, and then what it has counted.
type answer struct {
	Counts []proxy.TenantCount `json:"counts,omitempty"`
}

// counts are the requests that children have answered, by tenant.
type counts struct {
	mu sync.Mutex
	// before are those of children that have ended, now those of the one that runs.
	before, now map[string]proxy.Counts
}

// take takes over what the child has counted.
func (c *counts) take(of []proxy.TenantCount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := map[string]proxy.Counts{}
	for _, t := range of {
		now[t.Tenant] = t.Counts
	}
	for tenant, last := range c.now {
		is, ok := now[tenant]
		if !ok || is.Successes < last.Successes || is.Redirects < last.Redirects ||
			is.ClientErrors < last.ClientErrors || is.ServerErrors < last.ServerErrors {
			c.end(tenant, last) // it had no host for a while, and began anew
		}
	}
	c.now = now
}

// settle is the end of a child.
func (c *counts) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for tenant, last := range c.now {
		c.end(tenant, last)
	}
	c.now = nil
}

// end keeps what is not counted on. c.mu is held.
func (c *counts) end(tenant string, last proxy.Counts) {
	if c.before == nil {
		c.before = map[string]proxy.Counts{}
	}
	if _, known := c.before[tenant]; !known && len(c.before) >= namedTenants {
		tenant = other
	}
	c.before[tenant] = sum(c.before[tenant], last)
}

func sum(a, b proxy.Counts) proxy.Counts {
	return proxy.Counts{Successes: a.Successes + b.Successes, Redirects: a.Redirects + b.Redirects,
		ClientErrors: a.ClientErrors + b.ClientErrors, ServerErrors: a.ServerErrors + b.ServerErrors}
}

// Metrics adds the requests that were answered, as health.Metrics.
func (n *Node) Metrics(add func(name, help string, value float64, labels map[string]string)) {
	n.counts.mu.Lock()
	all := maps.Clone(n.counts.before)
	if all == nil {
		all = map[string]proxy.Counts{}
	}
	for tenant, now := range n.counts.now {
		all[tenant] = sum(all[tenant], now)
	}
	n.counts.mu.Unlock()
	named := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(tenant string) bool { return tenant == other })
	for _, tenant := range named[min(len(named), namedTenants):] {
		all[other] = sum(all[other], all[tenant])
		delete(all, tenant)
	}
	for tenant, c := range all {
		for class, value := range map[string]uint64{"2xx": c.Successes, "3xx": c.Redirects, "4xx": c.ClientErrors,
			"5xx": c.ServerErrors} {
			add("ingress_requests_total", "Requests for Ingresses and routes that this node has answered, and "+
				"connections that it has passed on, by tenant and class of the status.", float64(value),
				map[string]string{"tenant": tenant, "code": class})
		}
	}
}

// listenTo takes what a child says until it ends. serving is told when it serves, or that it does not.
func (c *counts) listenTo(child io.Reader, serving chan<- error) {
	defer c.settle()
	for in, first := json.NewDecoder(child), true; ; first = false {
		var said answer
		err := in.Decode(&said)
		if first {
			serving <- err
		}
		if err != nil {
			return
		}
		if !first {
			c.take(said.Counts)
		}
	}
}
