package server

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// machine is a server on a machine, whose requests leave garbage.
type machine struct {
	mu                    sync.Mutex
	flood, silent         bool
	live, heap, available uint64
	percents              []int    // that were wished for
	collected             []uint64 // the heap at each time
	loud                  int      // collections while the flood went on
}

func (m *machine) get(n *uint64) func() uint64 {
	return func() uint64 {
		m.mu.Lock()
		defer m.mu.Unlock()
		return *n
	}
}

func (m *machine) besideFlood() *besideFlood {
	return &besideFlood{
		contended: func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.flood
		},
		still: func(f func()) {
			m.silent = true
			f()
			m.silent = false
		},
		live: m.get(&m.live), heap: m.get(&m.heap), available: m.get(&m.available),
		collect: func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			if !m.silent {
				m.loud++
			}
			m.collected = append(m.collected, m.heap)
			m.heap = m.live
		},
		wish: func(percent int) { m.percents = append(m.percents, percent) },
	}
}

func (m *machine) set(f func()) {
	m.mu.Lock()
	f()
	m.mu.Unlock()
	synctest.Wait()
}

func TestGarbageWaitsBesideAFlood(t *testing.T) {
	for name, c := range map[string]struct {
		available, garbage uint64 // MiB beside 100 of live heap; from where on it is collected
		percent            int
	}{
		"much memory":    {100_000, floodMost * 100, 2 * floodMost * 100},
		"some":           {floodShare * 400, 400, 800},
		"little":         {floodShare * 10, 100, 200},
		"nobody knows":   {0, 100, 200},
		"exactly enough": {floodShare * 100, 100, 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const mib = 1 << 20
				m := &machine{live: 100 * mib, heap: 100 * mib, available: c.available * mib}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { m.besideFlood().run(ctx); close(ended) }()
				m.set(func() { m.heap = 10_000 * mib })
				time.Sleep(time.Minute)
				if len(m.collected) > 0 || len(m.percents) > 0 {
					t.Errorf("without a flood: %d collections, percents %d", len(m.collected), m.percents)
				}
				m.set(func() { m.heap, m.flood = m.live, true })
				time.Sleep(time.Second)
				m.set(func() { m.heap = m.live + c.garbage*mib - 1 })
				time.Sleep(time.Second)
				if len(m.collected) > 0 {
					t.Errorf("collected before there were %d MiB of garbage", c.garbage)
				}
				m.set(func() { m.heap++ })
				time.Sleep(2 * floodTick)
				synctest.Wait()
				if len(m.collected) != 1 || m.loud > 0 {
					t.Errorf("%d collections at %d MiB of garbage, %d of them beside a flood that went on", len(m.collected), c.garbage, m.loud)
				}
				m.set(func() { m.heap, m.flood = m.live+c.garbage*mib/2, false })
				time.Sleep(floodOver + time.Second)
				synctest.Wait()
				want := 1
				if c.garbage > 200 {
					want = 2 // more than Go would have left
				}
				if len(m.collected) != want {
					t.Errorf("%d collections, want %d when the flood is over", len(m.collected), want)
				}
				if want := []int{c.percent, c.percent, 0}; !slices.Equal(m.percents, want) {
					t.Errorf("GOGC was %d, want %d", m.percents, want)
				}
				m.set(func() { m.heap, m.flood = m.live, true })
				time.Sleep(time.Second)
				cancel()
				<-ended
				if last := m.percents[len(m.percents)-1]; last != 0 {
					t.Errorf("GOGC stays %d when the server ends in a flood", last)
				}
			})
		})
	}
}

func TestAvailableMemory(t *testing.T) {
	if got := availableMemory(); got < 1<<20 || got > 1<<50 {
		t.Errorf("%d bytes are available", got)
	}
	if limit, used := cgroupMemory(); limit > 0 && used == 0 {
		t.Errorf("of the limit %d of the cgroup nothing is used", limit)
	}
}
