package edge

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// What a refused request has cost is not charged in seats: it never had one. The answers of a
// flow that was refused more than a tenth of a processor wait instead, and with them its
// clients.
const (
	// refusalCost is what it takes to read a request and to refuse it, on a slow processor, and
	// refusalCostOfByte what each byte of its address adds.
	refusalCost       = 200 * time.Microsecond
	refusalCostOfByte = 4 * time.Nanosecond
	// refusalRate is how much of a processor refusing a flow may take without a wait, and
	// refusalBurst how much of that at once.
	refusalRate  = 0.1
	refusalBurst = time.Second / 10
)

// refusals knows how much flows were refused.
type refusals struct {
	limiters *lru.Cache // *rate.Limiter by flow; those of few refusals are the first to go
}

func newRefusals() *refusals { return &refusals{lru.New(credentials)} }

// hold returns when a refusal may be answered, or the context ends. It takes no longer than a
// request waits for a seat.
func (r *refusals) hold(ctx context.Context, flow string, bytes int) {
	if flow == "" {
		return
	}
	var limiter *rate.Limiter
	if known, ok := r.limiters.Get(flow); ok {
		limiter = known.(*rate.Limiter)
	} else {
		limiter = rate.NewLimiter(rate.Limit(refusalRate*1e6), int(refusalBurst/time.Microsecond))
		r.limiters.Add(flow, limiter)
	}
	cost := min(refusalCost+time.Duration(bytes)*refusalCostOfByte, refusalBurst)
	// What would wait for longer is not noted: the flow is as before soon after the last refusal.
	wait := longestWait
	if now := time.Now(); limiter.TokensAt(now) > -float64(longestWait/time.Microsecond)*refusalRate {
		wait = limiter.ReserveN(now, int(cost/time.Microsecond)).Delay()
	}
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(min(wait, longestWait))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
