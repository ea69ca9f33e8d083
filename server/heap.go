package server

import (
	"context"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/a4s-io/a4s/internal/component"
)

const (
	// idleFor is how long the process has to do little before it gives memory
	// back, and how often it looks.
	idleFor = time.Minute
	// idleShare is what little is: of the processor time that there is.
	idleShare = 0.1
)

// idleMemory gives the memory that a burst of work took back to the machine.
// Go collects garbage when the heap has doubled and returns what is free only
// slowly; collecting earlier costs every request, so it is done when there are
// few. A machine that is always busy needs the memory anyway.
func idleMemory() component.Component {
	return component.Component{Name: "idle-memory", Run: func(ctx context.Context, ready func()) error {
		ready()
		tick := time.NewTicker(idleFor)
		defer tick.Stop()
		giveBack(ctx, tick.C, processorTime, debug.FreeOSMemory)
		return nil
	}}
}

// giveBack calls free at the end of the first idle minute after a busy one.
func giveBack(ctx context.Context, tick <-chan time.Time, used func() time.Duration, free func()) {
	before, busy := used(), true // starting up is work
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
		if busy {
			free()
			before, busy = used(), false
		}
	}
}

// processorTime is what the process has used up to now.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
