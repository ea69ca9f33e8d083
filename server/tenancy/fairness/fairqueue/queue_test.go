package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// busy is a machine that has more to do than there are requests.
func busy() int { return 1000 }

func newQueue(busy func() int) *Queue {
	return New(Options{Seats: 2, Share: 1, Length: 64, Busy: busy})
}

// client asks one thing after the other, each of which takes so long.
func client(ctx context.Context, q *Queue, flow string, takes time.Duration, served *int, mu *sync.Mutex) {
	for ctx.Err() == nil {
		ask(ctx, q, flow, takes, served, mu)
	}
}

// ask asks one thing.
func ask(ctx context.Context, q *Queue, flow string, takes time.Duration, served *int, mu *sync.Mutex) {
	seat, err := q.Acquire(ctx, flow)
	if err != nil {
		return
	}
	time.Sleep(takes)
	seat.Release()
	mu.Lock()
	defer mu.Unlock()
	*served++
}

func TestCostIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(busy)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var mu sync.Mutex
		var cheap, dear int
		for range 32 {
			go client(ctx, q, "cheap", time.Millisecond, &cheap, &mu)
			go client(ctx, q, "dear", 4*time.Millisecond, &dear, &mu)
			go client(ctx, q, "third", 2*time.Millisecond, new(int), &mu)
		}
		time.Sleep(30 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if share := float64(cheap) / float64(4*dear); share < 0.9 || share > 1.1 {
			t.Errorf("%d requests of 1 ms and %d of 4 ms: not the same time", cheap, dear)
		}
	})
}

// Of more than there is, who weighs three times as much has three times as much, and another
// weight counts at once.
func TestWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		weights := map[string]float64{"light": 0.5, "heavy": 1.5, "third": 1}
		q := New(Options{Seats: 4, Share: 1, Alone: 3, Length: 64, Busy: busy,
			Weight: func(flow string) float64 { return weights[flow] }})
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		var mu sync.Mutex
		var light, heavy, third int
		for range 32 {
			go client(ctx, q, "light", 2*time.Millisecond, &light, &mu)
			go client(ctx, q, "heavy", 2*time.Millisecond, &heavy, &mu)
			go client(ctx, q, "third", 2*time.Millisecond, &third, &mu)
		}
		check := func(of map[string]float64) {
			mu.Lock()
			light, heavy, third = 0, 0, 0
			mu.Unlock()
			time.Sleep(20 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			all := float64(light+heavy+third) / (of["light"] + of["heavy"] + of["third"])
			for flow, served := range map[string]int{"light": light, "heavy": heavy, "third": third} {
				if part := float64(served) / all / of[flow]; part < 0.9 || part > 1.1 {
					t.Errorf("%s has %d requests of %d by weights of %v", flow, served, light+heavy+third, of)
				}
			}
		}
		check(weights)
		q.mu.Lock()
		weights["heavy"] = 0.5
		q.mu.Unlock()
		check(weights)
		q.mu.Lock()
		weights["light"] = 5
		q.mu.Unlock()
		check(weights)
		time.Sleep(time.Minute)
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.active < -1e-9 || q.active > 1e-9 {
			t.Errorf("nobody asks, and those who do weigh %g", q.active)
		}
	})
}

// Who comes late has its part at once, however far ahead one of little weight is of others: it has the
// seats that these may not have.
func TestLateBesideALightFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		weights := map[string]float64{"light": 0, "busy": 1, "late": 1} // what weighs nothing weighs little
		q := New(Options{Seats: 4, Share: 1, Alone: 3, Length: 64, Busy: busy,
			Weight: func(flow string) float64 { return weights[flow] }})
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		var mu sync.Mutex
		var light, before, late int
		for range 32 {
			go client(ctx, q, "light", 2*time.Millisecond, &light, &mu)
			go client(ctx, q, "busy", 2*time.Millisecond, &before, &mu)
		}
		time.Sleep(50 * time.Second)
		mu.Lock()
		before = 0
		mu.Unlock()
		for range 32 {
			go client(ctx, q, "late", 2*time.Millisecond, &late, &mu)
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if part := float64(late) / float64(before); part < 0.9 || part > 1.1 {
			t.Errorf("who came late had %d requests, and who was there %d", late, before)
		}
		if light == 0 {
			t.Error("who weighs nothing had none")
		}
	})
}

// TestOverloadDoesNotDelayOthers: beside two tenants that ask for as much as they
// can get, one that asks for little waits for no more than what runs already, and
// beside one of them not at all.
func TestOverloadDoesNotDelayOthers(t *testing.T) {
	const takes = 5 * time.Millisecond
	for _, c := range []struct {
		overloads []string
		longest   time.Duration
	}{{[]string{"first"}, 0}, {[]string{"first", "second"}, takes}} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(busy)
			ctx, cancel := context.WithCancel(t.Context())
			var mu sync.Mutex
			served := make([]int, len(c.overloads))
			for i, flow := range c.overloads {
				for range 64 {
					go client(ctx, q, flow, takes, &served[i], &mu)
				}
			}
			time.Sleep(time.Second)
			for range 200 {
				begin := time.Now()
				seat, err := q.Acquire(ctx, "other")
				if err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(begin); waited > c.longest {
					t.Errorf("beside %d: waited for %v", len(c.overloads), waited)
				}
				time.Sleep(time.Millisecond)
				seat.Release()
				time.Sleep(5 * time.Millisecond)
			}
			cancel()
			time.Sleep(time.Second)
		})
	}
}

// TestManyCheapRequests: a flow of many cheap requests, as of wrong tokens, does
// not make a client wait that asks for one dearer thing after the other, whatever
// it watches.
// TestSteadyFlowBesideManyOccasional: a hundred tenants that ask for something now
// and then do not pass one that asks all the time, each with what it saved.
func TestSteadyFlowBesideManyOccasional(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Seats: 4, Share: 1, Alone: 3, Length: 256, Busy: busy})
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var longest time.Duration
		for n := range 300 { // every 100 ms, whether the answer before has come or not
			if n == 100 {
				for i := range 10 {
					go func() {
						for tenant := i; ctx.Err() == nil; tenant = (tenant + 10) % 100 {
							ask(ctx, q, fmt.Sprint("tenant ", tenant), 60*time.Millisecond, new(int), &mu)
						}
					}()
				}
			}
			go func() {
				began := time.Now()
				ask(ctx, q, "steady", 20*time.Millisecond, new(int), &mu)
				mu.Lock()
				defer mu.Unlock()
				longest = max(longest, time.Since(began))
			}()
			time.Sleep(100 * time.Millisecond)
		}
		cancel()
		time.Sleep(20 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		t.Logf("the longest request of the steady flow took %s", longest)
		if longest > 500*time.Millisecond {
			t.Error("it had to wait for all others")
		}
	})
}

func TestManyCheapRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(busy)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var cheap int
		for range 64 {
			go client(ctx, q, "cheap", 100*time.Microsecond, &cheap, &mu)
		}
		watch, err := q.Acquire(ctx, "one")
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Release()
		time.Sleep(time.Second)
		var late int
		for range 1000 {
			begin := time.Now()
			seat, err := q.Acquire(ctx, "one")
			if err != nil {
				t.Fatal(err)
			}
			if time.Since(begin) > time.Millisecond {
				late++
			}
			time.Sleep(4 * time.Millisecond)
			seat.Release()
			time.Sleep(time.Millisecond)
		}
		mu.Lock()
		if late > 10 || cheap == 0 {
			t.Errorf("%d of 1000 requests waited for more than a millisecond, beside %d cheap ones", late, cheap)
		}
		mu.Unlock()
		cancel()
		time.Sleep(time.Second)
	})
}

// TestShareIsKept: whatever its requests cost, a flow leaves a seat for the next.
func TestShareIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(busy)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		for i := range 64 {
			go client(ctx, q, "one", time.Duration(1+i%9)*time.Millisecond, new(int), &mu)
		}
		time.Sleep(5 * time.Second)
		most := 0
		for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond / 2) {
			q.mu.Lock()
			most = max(most, q.flows["one"].own)
			q.mu.Unlock()
		}
		if most != q.opts.Share {
			t.Errorf("%d at once, of a share of %d", most, q.opts.Share)
		}
		cancel()
		time.Sleep(time.Second)
	})
}

// TestAloneAFlowHasMore: a flow has more seats while no other asks, and leaves
// them when one does.
func TestAloneAFlowHasMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Seats: 4, Share: 1, Alone: 3, Length: 64, Busy: busy})
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		for range 64 {
			go client(ctx, q, "one", 5*time.Millisecond, new(int), &mu)
		}
		running := func() int {
			q.mu.Lock()
			defer q.mu.Unlock()
			return q.flows["one"].own
		}
		time.Sleep(time.Second)
		if n := running(); n != q.opts.Alone {
			t.Errorf("alone: %d at once, want %d", n, q.opts.Alone)
		}
		for i := range 50 {
			begin := time.Now()
			seat, err := q.Acquire(ctx, "other")
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(begin); waited > 0 {
				t.Errorf("request %d of another waited for %v", i, waited)
			}
			time.Sleep(time.Millisecond)
			seat.Release()
			time.Sleep(10 * time.Millisecond)
			if n := running(); n != q.opts.Share {
				t.Errorf("beside another: %d at once, want %d", n, q.opts.Share)
			}
		}
		time.Sleep(time.Second)
		if n := running(); n != q.opts.Alone {
			t.Errorf("alone again: %d at once, want %d", n, q.opts.Alone)
		}
		cancel()
		time.Sleep(time.Second)
	})
}

// TestAloneLaterByLongRequests: a flow whose requests last long does not take all seats
// between two requests of another.
func TestAloneLaterByLongRequests(t *testing.T) {
	for takes, after := range map[time.Duration]time.Duration{
		time.Millisecond: aloneAfter, 50 * time.Millisecond: 500 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			q := New(Options{Seats: 4, Share: 1, Alone: 3, Length: 64, Busy: busy})
			ctx, cancel := context.WithCancel(t.Context())
			var mu sync.Mutex
			for range 64 {
				go client(ctx, q, "one", takes, new(int), &mu)
			}
			time.Sleep(20 * time.Second) // until it is known what it costs
			for range 3 {
				seat, err := q.Acquire(ctx, "other")
				if err != nil {
					t.Fatal(err)
				}
				seat.Release()
				running := func(until time.Duration, want int) {
					time.Sleep(until)
					q.mu.Lock()
					defer q.mu.Unlock()
					if n := q.flows["one"].own; n != want {
						t.Errorf("%v each: %d at once, want %d", takes, n, want)
					}
				}
				running(after*9/10, q.opts.Share)
				running(after*2/10, q.opts.Alone)
			}
			cancel()
			time.Sleep(time.Second)
		})
	}
	long := &flow{cost: 3600}
	if long.aloneAfter() != aloneAtLast {
		t.Errorf("at last after %v", long.aloneAfter())
	}
}

// TestSilentWaitsGiveUpTheirSeats: requests that wait for something without saying so
// do not keep others from processors that have nothing to do, of the same flow neither.
func TestSilentWaitsGiveUpTheirSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(func() int { return 0 })
		begin := time.Now()
		var group sync.WaitGroup
		for range 60 {
			group.Go(func() {
				seat, err := q.Acquire(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				seat.Release()
			})
		}
		group.Wait()
		if took := time.Since(begin); took > time.Second+60*(certain+1)*tick {
			t.Errorf("60 requests that waited for a second took %v", took)
		}
	})
}

// TestNothingHoldsForever: on a machine that is busy, too, what lasts long and says
// nothing does not keep others waiting: it may wait for one that waits for a seat.
func TestNothingHoldsForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(busy)
		var group sync.WaitGroup
		for _, flow := range []string{"a", "b"} {
			group.Go(func() {
				seat, err := q.Acquire(t.Context(), flow)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Hour)
				seat.Release()
			})
		}
		synctest.Wait()
		for _, flow := range []string{"c", "a"} {
			begin := time.Now()
			seat, err := q.Acquire(t.Context(), flow)
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(begin); waited > longest+10*time.Millisecond {
				t.Errorf("%s waited for %v", flow, waited)
			}
			seat.Release()
		}
		group.Wait()
	})
}

func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(busy)
		var taken []*Seat
		for _, flow := range []string{"a", "b"} {
			seat, err := q.Acquire(t.Context(), flow)
			if err != nil {
				t.Fatal(err)
			}
			taken = append(taken, seat)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		var group sync.WaitGroup
		for range q.opts.Length {
			group.Go(func() {
				if _, err := q.Acquire(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("waiting ended with %v", err)
				}
			})
		}
		synctest.Wait()
		if _, err := q.Acquire(ctx, "a"); !errors.Is(err, ErrFull) {
			t.Errorf("past the length: %v", err)
		}
		group.Wait()
		if q.waiting != 0 || len(q.backlog) != 0 || q.flows["a"].waiting.Len() != 0 {
			t.Error("who has left still waits")
		}
		for _, seat := range taken {
			seat.Release()
			seat.Release()
		}
		seat, err := q.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		seat.Move("c")
		seat.Release()
		for name, f := range q.flows {
			if f.own != 0 {
				t.Errorf("%s has %d of its share", name, f.own)
			}
		}
		time.Sleep(2 * forgetAfter)
		q.forget(time.Now())
		if len(q.flows) != 0 || q.running.Len() != 0 {
			t.Errorf("%d flows, %d seats are left", len(q.flows), q.running.Len())
		}
	})
}

// TestSeatsRace: whatever happens at once, in the end no seat is taken.
func TestSeatsRace(t *testing.T) {
	q := New(Options{Seats: 2, Share: 1, Length: 8, Busy: BusyGoroutines})
	var group, held sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			for j := range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(j%5)*time.Millisecond)
				seat, err := q.Acquire(ctx, string(rune('a'+i%7)))
				if err == nil {
					if j%4 == 0 {
						seat.Move("other")
					}
					switch j % 3 {
					case 0:
						seat.Wait(func() { time.Sleep(time.Duration(j%4) * time.Millisecond) })
						seat.Need()
					case 1:
						seat.Hold()
						held.Go(func() {
							seat.Wait(func() { time.Sleep(2 * time.Millisecond) })
							seat.Need()
							seat.Release()
						})
						seat.Wait(func() { time.Sleep(time.Millisecond) })
						seat.Need()
					}
					seat.Release()
				}
				cancel()
			}
		})
	}
	group.Wait()
	held.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running.Len()+q.waiting+len(q.backlog) != 0 {
		t.Errorf("%d seats, %d waiting, %d flows", q.running.Len(), q.waiting, len(q.backlog))
	}
	for name, f := range q.flows {
		if f.inside+f.begun+f.own+f.waiting.Len()+f.back.Len() != 0 {
			t.Errorf("%s: %d inside, %d seats", name, f.inside, f.own)
		}
	}
}
