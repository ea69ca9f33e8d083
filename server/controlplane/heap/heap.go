package heap

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"syscall"
	"time"

	"github.com/a4s-io/a4s/internal/component"
)

const (
	// idleFor is how long the process has to be idle before it returns memory,
	// and the interval of looking.
	idleFor = time.Minute
	// idleShare is the part of all processor time below which it is idle.
	idleShare = 0.1
	// growthPart is the part of itself by which the heap grows before it is worth
	// collecting while idle; Go waits until it has doubled.
	growthPart = 5
	// tenantGarbage is about the garbage of creating a tenant, in bytes.
	tenantGarbage = 2 << 20
	// growthShare is the part of the live heap that new tenants may add in
	// garbage before it is collected.
	growthShare = 8
	// patience is how long what makes spaces waits for a collection. That of a server with
	// a million dormant tenants takes seconds, and somebody's first request waits as well.
	patience = 100 * time.Millisecond
)

// Idle returns memory to the machine after work. Go collects garbage when
// the heap has doubled and returns free memory only slowly; collecting earlier
// costs every request, so it is done when there are few.
func Idle() component.Component {
	return component.Component{Name: "idle-memory", Run: func(ctx context.Context, ready func()) error {
		ready()
		tick := time.NewTicker(idleFor)
		defer tick.Stop()
		giveBack(ctx, tick.C, processorTime, heapSize, debug.FreeOSMemory)
		return nil
	}}
}

// giveBack calls free at the end of an idle minute that follows one with work, or
// in which the heap has grown by a part of itself since the last call.
func giveBack(ctx context.Context, tick <-chan time.Time, used func() time.Duration, heap func() uint64, free func()) {
	before, worked, last := used(), true, uint64(0) // starting up is work
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		now := used()
		idle := now-before < time.Duration(float64(idleFor)*idleShare*float64(runtime.GOMAXPROCS(0)))
		before = now
		if !idle {
			worked = true
			continue
		}
		if worked || heap() > last+last/growthPart {
			free()
			before, worked, last = used(), false, heap()
		}
	}
}

// heapSize is the bytes of all objects on the heap, garbage included.
func heapSize() uint64 { return bytesOf("/memory/classes/heap/objects:bytes") }

// liveHeap is the bytes of the objects that the last collection left.
func liveHeap() uint64 { return bytesOf("/gc/heap/live:bytes") }

// bytesOf reads a metric of Go's runtime; it is 0 if there is none of the name.
func bytesOf(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// processorTime is the processor time that the process has used up to now.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Growth collects garbage while tenants are created. Their objects stay, and Go
// does not move them: the less garbage is between them, the fewer pages they
// occupy. Only what makes spaces waits for it: objects that are allocated
// during a collection lie among the garbage that it is about to free.
type Growth struct {
	live, heap func() uint64 // bytes
	collect    func()

	mu         sync.Mutex
	created    uint64        // tenants since the last collection
	collecting chan struct{} // closed when the collection ends, nil if there is none
}

// NewGrowth leaves it to Go if the operator said when to collect.
func NewGrowth() *Growth {
	if os.Getenv("GOGC") != "" {
		return &Growth{}
	}
	return &Growth{live: liveHeap, heap: heapSize, collect: runtime.GC}
}

// Tenant counts a new tenant. Other garbage alone is no reason to collect: on a
// server under load each tenant would cost a collection.
func (g *Growth) Tenant() {
	if g.collect == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.created++
	if g.collecting != nil {
		return
	}
	if live := g.live(); g.created*tenantGarbage < live/growthShare || g.heap() < live+live/growthShare {
		return
	}
	ended := make(chan struct{})
	g.created, g.collecting = 0, ended
	go func() {
		g.collect()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.collecting = nil
		close(ended)
	}()
}

// Wait returns when nothing is being collected for new tenants, or it took too long.
func (g *Growth) Wait(ctx context.Context) {
	g.mu.Lock()
	collecting := g.collecting
	g.mu.Unlock()
	if collecting == nil {
		return
	}
	enough := time.NewTimer(patience)
	defer enough.Stop()
	select {
	case <-collecting:
	case <-enough.C:
	case <-ctx.Done():
	}
}
