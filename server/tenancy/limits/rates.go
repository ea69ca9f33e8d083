package limits

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

const (
	// eventBurst is how many seconds' events may come at once.
	eventBurst = 10
	// Superseded versions stay in the datastore until it is compacted, which
	// takes five to ten minutes. So what a tenant's users write in historyTime
	// is bounded, too: by as much as they may have, but no less than
	// leastHistory.
	historyTime  = 5 * time.Minute
	leastHistory = 64 << 20

	// Of a datastore that is fuller than crowded percent of its quota, no tenant
	// gets more than its share; what is above reserved percent is the system's.
	// Both are below what makes a full datastore writable again.
	crowded, reserved = 70, 80
	// fillLives is how long it is good to know how full it is: an overload adds tens
	// of megabytes in a second.
	fillLives = 100 * time.Millisecond
	// showEvery is how often metrics learn what tenants use.
	showEvery = 15 * time.Second
	// comeBack is the seconds until a client tries again to write into a
	// datastore that is almost full.
	comeBack = 10
)

// rates are how fast a tenant does things.
type rates struct {
	mu              sync.Mutex
	events, written *rate.Limiter
}

// rateLimits are the rates of all tenants.
type rateLimits struct{ tenants sync.Map } // tenant -> *rates

func (l *rateLimits) of(tenant string) *rates {
	if r, ok := l.tenants.Load(tenant); ok {
		return r.(*rates)
	}
	r, _ := l.tenants.LoadOrStore(tenant, &rates{})
	return r.(*rates)
}

// slow refuses what comes too fast.
func (w *write) slow(own *tenantapi.TenantLimits, was before, limits *amounts) error {
	if err := w.events(own); err != nil {
		return err
	}
	if w.system {
		return nil
	}
	if err := w.crowded(was); err != nil {
		return err
	}
	if limits[bytes] == unbounded()[bytes] {
		return nil
	}
	burst := int(max(limits[bytes], leastHistory))
	per := rate.Limit(float64(burst) / historyTime.Seconds())
	if !w.limits.rates.history(w.tenant, per, burst).AllowN(time.Now(), int(min(w.size, int64(burst)))) {
		return apierrors.NewTooManyRequests(fmt.Sprintf("the tenant has written more than %d bytes in too short a "+
			"time: try again later", burst), retryAfter)
	}
	return nil
}

// events refuses events that come too fast. Of the system, which has one
// recorder for all, they are dropped: it does not try again when it learns that
// it may not.
func (w *write) events(own *tenantapi.TenantLimits) error {
	most := own.EventsPerSecond
	if !isEvents(w.resource) || most == nil {
		return nil
	}
	n := int(min(*most, 1<<30))
	if w.limits.rates.events(w.tenant, rate.Limit(n), n*eventBurst).Allow() {
		return nil
	}
	text := fmt.Sprintf("exceeded limit of the tenant: %s, limited: %d; an administrator of the cluster can raise "+
		"spec.limits.%[1]s of the Tenant", tenantapi.LimitEventsPerSecond, n)
	if w.system || n == 0 {
		return apierrors.NewForbidden(w.resource, w.name, fmt.Errorf("%s", text))
	}
	return apierrors.NewTooManyRequests(text, retryAfter)
}

// events bounds the events of a tenant.
func (l *rateLimits) events(tenant string, per rate.Limit, burst int) *rate.Limiter {
	return l.limiter(tenant, func(r *rates) **rate.Limiter { return &r.events }, per, burst)
}

// history bounds what a tenant's users write.
func (l *rateLimits) history(tenant string, per rate.Limit, burst int) *rate.Limiter {
	return l.limiter(tenant, func(r *rates) **rate.Limiter { return &r.written }, per, burst)
}

func (l *rateLimits) limiter(
	tenant string, which func(*rates) **rate.Limiter, per rate.Limit, burst int,
) *rate.Limiter {
	r := l.of(tenant)
	r.mu.Lock()
	defer r.mu.Unlock()
	at := which(r)
	if *at == nil {
		*at = rate.NewLimiter(per, burst)
	}
	if (*at).Limit() != per || (*at).Burst() != burst { // the tenant has another limit now
		(*at).SetLimit(per)
		(*at).SetBurst(burst)
	}
	return *at
}

// filled is how full the datastore is.
type filled struct {
	used, quota int64
	at          time.Time
}

func (l *Limits) howFull() (used, quota int64) {
	if l.fill == nil {
		return 0, 0
	}
	f := l.filled.Load()
	if f == nil || time.Since(f.at) > fillLives {
		f = &filled{at: time.Now()}
		f.used, f.quota = l.fill()
		l.filled.Store(f)
	}
	return f.used, f.quota
}

// crowded refuses what a tenant's users add to a datastore that is almost full,
// so that the others and the system can go on.
func (w *write) crowded(was before) error {
	used, quota := w.limits.howFull()
	if quota <= 0 || used < quota/100*crowded || w.need[bytes] == 0 && was.exists {
		return nil
	}
	own, tenants := w.limits.accounting.share(w.tenant)
	if used < quota/100*reserved && own <= quota/100*crowded/int64(max(1, tenants)) {
		return nil
	}
	return apierrors.NewTooManyRequests(fmt.Sprintf("the datastore of the cluster is almost full (%d of %d bytes), "+
		"and the tenant has %d of it: delete something, or try again later", used, quota, own), comeBack)
}

// showAll has metrics say what is used, until the context ends.
func (l *Limits) showAll(ctx context.Context) {
	tick := time.NewTicker(showEvery)
	defer tick.Stop()
	for {
		l.show(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
