package heap

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestMemoryIsGivenBackWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tick, freed := make(chan time.Time), 0
		var used time.Duration
		heap := uint64(100)
		go giveBack(t.Context(), tick, func() time.Duration { return used },
			func() uint64 { return heap }, func() { freed++ })
		synctest.Wait()
		for i, step := range []struct {
			work time.Duration
			heap uint64
			want int
		}{
			{0, 100, 1},           // the start was work
			{0, 110, 1},           // idle since
			{time.Hour, 200, 1},   // busy
			{time.Hour, 200, 1},   // still
			{time.Second, 200, 2}, // not any more
			{time.Second, 220, 2},
			{time.Second, 250, 3}, // little work adds up
			{time.Second, 260, 3},
			{time.Hour, 400, 3},
			{0, 100, 4},
		} {
			used, heap = used+step.work, step.heap
			tick <- time.Time{}
			synctest.Wait() // until it waits for the next one
			if freed != step.want {
				t.Errorf("step %d: given back %d times, want %d", i, freed, step.want)
			}
		}
	})
}

func TestTenantsThatAreMadeHaveTheirGarbageCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const live = 3 * tenantGarbage * growthShare
		heap := uint64(2 * live)
		collected, release := 0, make(chan struct{})
		g := &Growth{live: func() uint64 { return live }, heap: func() uint64 { return heap }, collect: func() {
			collected++
			<-release
		}}
		make := func(n int) {
			for range n {
				g.Tenant()
			}
			synctest.Wait()
		}
		make(2)
		if collected != 0 {
			t.Error("it collects for every tenant")
		}
		make(1)
		if collected != 1 {
			t.Errorf("collected %d times, want 1", collected)
		}
		make(10)
		if collected != 1 {
			t.Error("a second collection beside the first")
		}
		close(release)
		make(0)
		heap = live
		if make(1); collected != 1 {
			t.Error("it collects although Go has just done it")
		}
		heap = 2 * live
		if make(1); collected != 2 {
			t.Error("those that were made meanwhile do not count")
		}
	})
}

func TestTenantsWaitForTheCollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		g := &Growth{live: func() uint64 { return 1 }, heap: func() uint64 { return 2 }, collect: func() { <-release }}
		waiting := func(ctx context.Context) (ended <-chan struct{}) {
			c := make(chan struct{})
			go func() {
				defer close(c)
				g.Wait(ctx)
			}()
			synctest.Wait()
			return c
		}
		<-waiting(t.Context()) // nothing is being collected
		g.Tenant()
		ctx, cancel := context.WithCancel(t.Context())
		impatient, patient := waiting(ctx), waiting(t.Context())
		select {
		case <-impatient:
			t.Error("it does not wait")
		case <-patient:
			t.Error("it does not wait")
		default:
		}
		cancel()
		<-impatient
		close(release)
		<-patient
		<-waiting(t.Context())
	})
}

// TestLongCollectionIsNotWaitedFor: with a million dormant tenants one takes seconds.
func TestLongCollectionIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		g := &Growth{live: func() uint64 { return 1 }, heap: func() uint64 { return 2 }, collect: func() { <-release }}
		g.Tenant()
		began := time.Now()
		if g.Wait(t.Context()); time.Since(began) != patience {
			t.Errorf("it waited for %v, want %v", time.Since(began), patience)
		}
	})
}

func TestOperatorsCollectionIsNotInterferedWith(t *testing.T) {
	t.Setenv("GOGC", "")
	if NewGrowth().collect == nil {
		t.Error("it never collects")
	}
	t.Setenv("GOGC", "100")
	g := NewGrowth()
	if g.collect != nil {
		t.Error("it collects although GOGC is set")
	}
	g.Tenant()
	g.Wait(t.Context())
}

func TestSizesOfTheHeapAreKnown(t *testing.T) {
	runtime.GC()
	if liveHeap() == 0 || heapSize() == 0 {
		t.Errorf("live heap %d, heap %d", liveHeap(), heapSize())
	}
}
