package server

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
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

const (
	// idleFor is how long the process has to do little before it gives memory
	// back, and how often it looks.
	idleFor = time.Minute
	// idleShare is what little is: of the processor time that there is.
	idleShare = 0.1
	// growthPart is by which part of itself the heap grows before it is worth
	// collecting while idle; Go waits until it has doubled.
	growthPart = 5
	// tenantGarbage is about what making a tenant leaves behind.
	tenantGarbage = 2 << 20
	// growthShare is the part of the live heap that new tenants may add in
	// garbage before it is collected.
	growthShare = 8
)

// idleMemory gives the memory that a burst of work took back to the machine, and
// what little work takes while there is no other. Go collects garbage when the
// heap has doubled and returns what is free only slowly; collecting earlier costs
// every request, so it is done when there are few. A machine that is always busy
// needs the memory anyway.
func idleMemory(pool *interning.Pool) component.Component {
	return component.Component{Name: "idle-memory", Run: func(ctx context.Context, ready func()) error {
		ready()
		tick := time.NewTicker(idleFor)
		defer tick.Stop()
		giveBack(ctx, tick.C, processorTime, heapSize, func() {
			pool.Forget()
			debug.FreeOSMemory()
		})
		return nil
	}}
}

// giveBack calls free at the end of an idle minute that follows a busy one, or
// at whose end the heap has grown by a part since.
func giveBack(ctx context.Context, tick <-chan time.Time, used func() time.Duration, heap func() uint64, free func()) {
	before, busy, kept := used(), true, uint64(0) // starting up is work
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		now := used()
		little := now-before < time.Duration(float64(idleFor)*idleShare*float64(runtime.GOMAXPROCS(0)))
		before = now
		if !little {
			busy = true
			continue
		}
		if busy || heap() > kept+kept/growthPart {
			free()
			before, busy, kept = used(), false, heap()
		}
	}
}

// heapSize is what the objects on the heap take, with those that nobody needs
// any more.
func heapSize() uint64 { return bytesOf("/memory/classes/heap/objects:bytes") }

// liveHeap is what the last collection left.
func liveHeap() uint64 { return bytesOf("/gc/heap/live:bytes") }

// bytesOf reads a metric of Go's runtime; it is 0 if that has none of the name.
func bytesOf(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// processorTime is what the process has used up to now.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// growth collects garbage while tenants are made. Their objects stay, and Go
// does not move what stays: the fewer garbage is between them, the fewer pages
// they hold. Only who makes tenants pays for it, by waiting, too: what is made
// during a collection lies beside all the garbage that it is about to find.
type growth struct {
	live, heap func() uint64 // bytes
	collect    func()

	mu         sync.Mutex
	made       uint64        // since the last collection
	collecting chan struct{} // closed when the collection ends, nil if there is none
}

// newGrowth leaves it to Go if the operator said when to collect.
func newGrowth() *growth {
	if os.Getenv("GOGC") != "" {
		return &growth{}
	}
	return &growth{live: liveHeap, heap: heapSize, collect: runtime.GC}
}

// tenant counts a new one. Garbage of others alone is no reason to collect: it
// would make a tenant on a busy server cost a collection.
func (g *growth) tenant() {
	if g.collect == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.made++
	if g.collecting != nil {
		return
	}
	if live := g.live(); g.made*tenantGarbage < live/growthShare || g.heap() < live+live/growthShare {
		return
	}
	ended := make(chan struct{})
	g.made, g.collecting = 0, ended
	go func() {
		g.collect()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.collecting = nil
		close(ended)
	}()
}

// wait returns when nothing is being collected for new tenants.
func (g *growth) wait(ctx context.Context) {
	g.mu.Lock()
	collecting := g.collecting
	g.mu.Unlock()
	if collecting == nil {
		return
	}
	select {
	case <-collecting:
	case <-ctx.Done():
	}
}
