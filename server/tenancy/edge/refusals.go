package edge

import (
	"context"
	"sync"
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
	// heldOfFlow is how many answers of a flow wait at a time, heldAtAll how many of all flows,
	// and heldBytes how many bytes of addresses they have: a request that waits is kept in memory,
	// and whoever can reach the server can send some. More are answered at once.
	heldOfFlow = 512
	heldAtAll  = 2048
	heldBytes  = 64 << 20
)

// refusals knows how much flows were refused.
type refusals struct {
	flows *lru.Cache // *refusedFlow by name; those of few refusals are the first to go

	mu    sync.Mutex
	held  int
	bytes int
}

type refusedFlow struct {
	*rate.Limiter
	held int
}

func newRefusals() *refusals { return &refusals{flows: lru.New(credentials)} }

// hold returns when a refusal may be answered, or the context ends. It takes no longer than a
// request waits for a seat.
func (r *refusals) hold(ctx context.Context, name string, bytes int) {
	if name == "" {
		return
	}
	f := r.flow(name)
	// What would wait for longer is not noted: the flow is as before soon after the last refusal.
	wait := longestWait
	cost := min(refusalCost+time.Duration(bytes)*refusalCostOfByte, refusalBurst)
	if now := time.Now(); f.TokensAt(now) > -float64(longestWait/time.Microsecond)*refusalRate {
		wait = f.ReserveN(now, int(cost/time.Microsecond)).Delay()
	}
	if wait <= 0 || !r.begin(f, bytes) {
		return
	}
	defer r.end(f, bytes)
	timer := time.NewTimer(min(wait, longestWait))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (r *refusals) flow(name string) *refusedFlow {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.flows.Get(name); ok {
		return known.(*refusedFlow)
	}
	f := &refusedFlow{Limiter: rate.NewLimiter(rate.Limit(refusalRate*1e6), int(refusalBurst/time.Microsecond))}
	r.flows.Add(name, f)
	return f
}

// begin reports whether one more may wait.
func (r *refusals) begin(f *refusedFlow, bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.held >= heldOfFlow || r.held >= heldAtAll || r.bytes+bytes > heldBytes {
		return false
	}
	f.held++
	r.held++
	r.bytes += bytes
	return true
}

func (r *refusals) end(f *refusedFlow, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.held--
	r.held--
	r.bytes -= bytes
}
