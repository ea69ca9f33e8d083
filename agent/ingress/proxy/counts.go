package proxy

import (
	"cmp"
	"net/http"
	"slices"
	"sync/atomic"
)

// Counts are requests that were answered, by the class of their status. An upgraded connection, or one
// that is passed on unopened, is a success when it ends.
type Counts struct {
	Successes, Redirects, ClientErrors, ServerErrors uint64
}

// TenantCount is what was answered for hosts of one tenant since it has any.
type TenantCount struct {
	Tenant string
	Counts Counts
}

// counter makes Counts.
type counter struct {
	successes, redirects, clientErrors, serverErrors atomic.Uint64
}

func (c *counter) add(status int) {
	switch {
	case status >= http.StatusInternalServerError:
		c.serverErrors.Add(1)
	case status >= http.StatusBadRequest:
		c.clientErrors.Add(1)
	case status >= http.StatusMultipleChoices:
		c.redirects.Add(1)
	case status > 0:
		c.successes.Add(1)
	}
}

func (c *counter) reset() {
	for _, n := range []*atomic.Uint64{&c.successes, &c.redirects, &c.clientErrors, &c.serverErrors} {
		n.Store(0)
	}
}

func (c *counter) snapshot() Counts {
	return Counts{
		Successes: c.successes.Load(), Redirects: c.redirects.Load(),
		ClientErrors: c.clientErrors.Load(), ServerErrors: c.serverErrors.Load(),
	}
}

// counts returns those of all tenants that have a host, by name.
func (s *snapshot) counts() []TenantCount {
	all := make([]TenantCount, 0, len(s.tenants))
	for name, t := range s.tenants {
		all = append(all, TenantCount{Tenant: name, Counts: t.counts.snapshot()})
	}
	slices.SortFunc(all, func(a, b TenantCount) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return all
}
