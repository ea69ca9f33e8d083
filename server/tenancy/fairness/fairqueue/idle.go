package fairqueue

import (
	"runtime"
	"runtime/metrics"
)

// IdleProcessors is how many of Go's processors have nothing to do, the
// caller's own not counted. Less than 0: goroutines wait for one.
func IdleProcessors() int {
	samples := [...]metrics.Sample{{Name: "/sched/goroutines/running:goroutines"},
		{Name: "/sched/goroutines/runnable:goroutines"}}
	metrics.Read(samples[:])
	busy := 0
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			busy += int(s.Value.Uint64())
		}
	}
	return runtime.GOMAXPROCS(0) - busy
}
