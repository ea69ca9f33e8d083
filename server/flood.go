package server

import (
	"context"
	"os"
	"runtime"
	"time"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

const (
	// floodLook is how often it is looked whether there is a flood.
	floodLook = 50 * time.Millisecond
	// floodTick is how often the heap is looked at beside one.
	floodTick = 2 * time.Millisecond
	// floodOver is after how long without one it is over.
	floodOver = 2 * time.Second
	// floodShare is the part of the memory that is available which garbage may
	// take beside a flood.
	floodShare = 8
	// floodMost is how many times the live heap it may be at most. Twice as
	// much is no better for a p99.
	floodMost = 10
)

// besideFlood collects garbage more seldom, and while the flood is still, as long
// as the requests of a tenant wait beside those of another that asks for little.
// A collection takes all processors that are idle and a quarter of those that are
// not, in pieces that nothing interrupts. It lasts for a hundred times as long as
// a small request, and a flood makes garbage so fast that every tenth request
// would meet one.
type besideFlood struct {
	contended func() bool
	// still runs what it is given while the flood waits.
	still func(func())
	// live, heap and available are bytes.
	live, heap, available func() uint64
	collect               func()
	// wish is for a GOGC, 0 for none.
	wish func(percent int)
}

// floodMemory runs besideFlood, unless the operator said when to collect.
func floodMemory(q *fairqueue.Queue, percent *gcPercent) component.Component {
	return component.Component{Name: "flood-memory", Run: func(ctx context.Context, ready func()) error {
		ready()
		if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
			b := &besideFlood{
				contended: q.Contended, still: q.Still,
				live: liveHeap, heap: heapSize, available: availableMemory,
				collect: runtime.GC, wish: func(n int) { percent.wish(byFlood, n) },
			}
			b.run(ctx)
		}
		<-ctx.Done()
		return nil
	}}
}

// run returns when the context ends.
func (b *besideFlood) run(ctx context.Context) {
	for component.Sleep(ctx, floodLook) == nil {
		if b.contended() {
			b.during(ctx)
		}
	}
}

// during returns when the flood is over. Go's own collections are there in case
// that this one is late, and come as before when it is over. Go would hold up
// everybody who allocates if it found too much garbage then.
func (b *besideFlood) during(ctx context.Context) {
	room := b.decide()
	defer b.wish(0)
	seen := time.Now()
	defer func() {
		if ctx.Err() == nil && b.heap() > 2*b.live() {
			b.collect()
		}
	}()
	for time.Since(seen) < floodOver && component.Sleep(ctx, floodTick) == nil {
		if b.contended() {
			seen = time.Now()
		}
		if b.heap() < b.live()+room {
			continue
		}
		b.still(b.collect)
		room = b.decide()
	}
}

// decide returns how much garbage there may be: as much as is alive, as Go has
// it, and more if there is memory for it. It has Go wait for twice as much.
func (b *besideFlood) decide() (room uint64) {
	live := b.live()
	room = min(max(live, b.available()/floodShare), floodMost*live)
	b.wish(int(100 * 2 * room / max(live, 1)))
	return room
}
