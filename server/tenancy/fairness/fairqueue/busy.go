package fairqueue

import "runtime/metrics"

// BusyGoroutines is how many goroutines run or wait for a processor, the caller's own
// not counted.
func BusyGoroutines() int {
	samples := [...]metrics.Sample{{Name: "/sched/goroutines/running:goroutines"},
		{Name: "/sched/goroutines/runnable:goroutines"}}
	metrics.Read(samples[:])
	busy := -1
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			busy += int(s.Value.Uint64())
		}
	}
	return busy
}
