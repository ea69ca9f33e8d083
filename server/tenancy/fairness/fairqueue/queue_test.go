package fairqueue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// busy is a machine that has nothing idle.
func busy() int { return 0 }

func newQueue(idle func() int) *Queue {
	return New(Options{Slots: 2, Alone: 6, Share: 1, Burst: 8, Length: 64, Idle: idle})
}

// client asks one thing after the other, each of which takes so long.
func client(ctx context.Context, q *Queue, flow string, takes time.Duration, served *int, mu *sync.Mutex) {
	for ctx.Err() == nil {
		ask(ctx, q, flow, takes, served, mu)
	}
}

// ask asks one thing.
func ask(ctx context.Context, q *Queue, flow string, takes time.Duration, served *int, mu *sync.Mutex) {
	t, err := q.Acquire(ctx, flow, false)
	if err != nil {
		return
	}
	time.Sleep(takes)
	t.Release()
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

func TestFloodDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(busy)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var flood, second int
		for range 64 {
			go client(ctx, q, "flood", 5*time.Millisecond, &flood, &mu)
			go client(ctx, q, "second flood", 7*time.Millisecond, &second, &mu)
		}
		time.Sleep(time.Second) // both slots are theirs
		for range 200 {
			begin := time.Now()
			turn, err := q.Acquire(ctx, "modest", false)
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(begin); waited > 0 {
				t.Errorf("waited for %v", waited)
			}
			time.Sleep(time.Millisecond)
			turn.Release()
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
		time.Sleep(time.Second)
	})
}

// Beside a flow that uses little, a busy one goes on when a processor is idle,
// and after a while in any case.
func TestFloodLeavesRoomForModestFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle := 0
		var mu sync.Mutex
		q := newQueue(func() int {
			mu.Lock()
			defer mu.Unlock()
			return idle
		})
		ctx, cancel := context.WithCancel(t.Context())
		var flood int
		for range 8 {
			go client(ctx, q, "flood", time.Millisecond, &flood, &mu)
		}
		served := func() int {
			mu.Lock()
			defer mu.Unlock()
			before := flood
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			return flood - before
		}
		time.Sleep(time.Second)
		alone := served()
		go func() {
			for ctx.Err() == nil {
				if turn, err := q.Acquire(ctx, "modest", false); err == nil {
					time.Sleep(100 * time.Microsecond)
					turn.Release()
				}
				time.Sleep(100 * time.Millisecond)
			}
		}()
		time.Sleep(100 * time.Millisecond)
		beside := served()
		if least := int(time.Second/patience) / 2; beside > alone/10 || beside < least {
			t.Errorf("%d requests a second alone, %d beside another without an idle processor", alone, beside)
		}
		mu.Lock()
		idle = 1
		mu.Unlock()
		if n := served(); n < alone/(q.opts.Alone+1) {
			t.Errorf("%d requests a second alone, %d beside another with an idle processor", alone, n)
		}
		cancel()
		time.Sleep(time.Second)
	})
}

// Turns of a flood can be told from others beside a flow that uses little: neither
// those of the modest flow, nor of one that asks for one thing at a time, nor of a
// flood that has no such company are.
func TestBesideModestFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(func() int { return 1 })
		turns := func(flow string, clients int, pause time.Duration) (beside, others int) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			var mu sync.Mutex
			var group sync.WaitGroup
			for range clients {
				group.Go(func() {
					for ctx.Err() == nil {
						turn, err := q.Acquire(ctx, flow, false)
						if err != nil {
							return
						}
						mu.Lock()
						if turn.Beside() {
							beside++
						} else {
							others++
						}
						mu.Unlock()
						time.Sleep(time.Millisecond)
						turn.Release()
						time.Sleep(pause)
					}
				})
			}
			group.Wait()
			return beside, others
		}
		if beside, others := turns("flood", 8, 0); beside > 0 || others == 0 {
			t.Errorf("a flood alone: %d are beside others, %d are not", beside, others)
		}
		type count struct{ beside, others int }
		modest, steady := make(chan count, 1), make(chan count, 1)
		go func() {
			beside, others := turns("modest", 1, 100*time.Millisecond)
			modest <- count{beside, others}
		}()
		go func() {
			beside, others := turns("steady", 1, 0)
			steady <- count{beside, others}
		}()
		time.Sleep(10 * time.Millisecond)
		if beside, others := turns("flood", 8, 0); beside < 9*others {
			t.Errorf("a flood beside others: %d are, %d are not", beside, others)
		}
		for who, c := range map[string]count{"the modest one": <-modest, "one thing at a time": <-steady} {
			if c.beside > c.others/10 || c.others == 0 {
				t.Errorf("%s: %d are beside others, %d are not", who, c.beside, c.others)
			}
		}
		time.Sleep(time.Second)
	})
}

// While it is to be still a flood waits even if processors are idle, for a
// while.
func TestFloodIsStillBesideModestFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(func() int { return 2 })
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var flood, modest int
		for range 8 {
			go client(ctx, q, "flood", time.Millisecond, &flood, &mu)
		}
		time.Sleep(3 * time.Second)
		if q.Contended() {
			t.Error("a flow that is alone contends with nobody")
		}
		during := func(d time.Duration) (f, m int) {
			mu.Lock()
			f, m = flood, modest
			mu.Unlock()
			time.Sleep(d)
			mu.Lock()
			defer mu.Unlock()
			return flood - f, modest - m
		}
		const long = stillPatience - 10*time.Millisecond
		q.Still(func() {
			if f, _ := during(long); f < 20 {
				t.Errorf("%d requests of a flood beside nobody who is modest", f)
			}
		})
		go func() {
			for ctx.Err() == nil {
				ask(ctx, q, "modest", 100*time.Microsecond, &modest, &mu)
				time.Sleep(5 * time.Millisecond)
			}
		}()
		time.Sleep(time.Second)
		if !q.Contended() {
			t.Error("a flood waits beside a modest flow, and nobody knows")
		}
		q.Still(func() {
			time.Sleep(5 * time.Millisecond) // what has begun ends
			if f, m := during(long - 5*time.Millisecond); f > 0 || m < 10 {
				t.Errorf("while it was to be still: %d of the flood and %d modest ones", f, m)
			}
			if f, _ := during(stillPatience); f == 0 {
				t.Error("it is still for ever")
			}
		})
		if f, _ := during(long); f < 20 {
			t.Errorf("%d requests of the flood after it", f)
		}
		cancel()
		time.Sleep(time.Second)
	})
}

// TestStrangersAreNoCompany: a probe every now and then, of whom nobody knows
// who he is, does not take turns from a flow that is alone otherwise, and does
// not wait for them.
func TestStrangersAreNoCompany(t *testing.T) {
	for _, stranger := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(busy)
			q.opts.Stranger = func(flow string) bool { return stranger && flow == "probe" }
			ctx, cancel := context.WithCancel(t.Context())
			var mu sync.Mutex
			var flood int
			for range 64 {
				go client(ctx, q, "flood", time.Millisecond, &flood, &mu)
			}
			time.Sleep(2 * companyFor)
			began := time.Now()
			turn, err := q.Acquire(ctx, "probe", false)
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(began); waited != 0 {
				t.Errorf("a stranger: %v: waits for %s", stranger, waited)
			}
			turn.Release()
			time.Sleep(2 * patience)
			q.mu.Lock()
			held := q.held.Len()
			q.mu.Unlock()
			if whole := held == q.opts.Alone; whole != stranger {
				t.Errorf("a stranger: %v: %d turns of the other flow afterwards", stranger, held)
			}
			cancel()
			time.Sleep(time.Second)
		})
	}
}

// TestCheapFloodDoesNotDelayOthers: a flood that uses less in its turns than a
// client that asks for one thing after the other, as one of wrong tokens does,
// does not make that one wait, whatever it watches.
func TestCheapFloodDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(busy)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var flood int
		for range 64 {
			go client(ctx, q, "flood", 100*time.Microsecond, &flood, &mu)
		}
		watch, err := q.Acquire(ctx, "one", true)
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Release()
		time.Sleep(time.Second)
		var late int
		for range 1000 {
			begin := time.Now()
			turn, err := q.Acquire(ctx, "one", false)
			if err != nil {
				t.Fatal(err)
			}
			if time.Since(begin) > time.Millisecond {
				late++
			}
			time.Sleep(4 * time.Millisecond)
			turn.Release()
			time.Sleep(time.Millisecond)
		}
		mu.Lock()
		if late > 10 || flood == 0 {
			t.Errorf("%d of 1000 requests waited for more than a millisecond, beside %d of a flood", late, flood)
		}
		mu.Unlock()
		cancel()
		time.Sleep(time.Second)
	})
}

// TestChargesCount: what is done for a flow outside of its turns counts as what
// is done in them.
func TestChargesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(busy)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		served := map[string]int{}
		var mu sync.Mutex
		for i := range 64 {
			flow, outside := "charged", 3*time.Millisecond
			if i%2 == 0 {
				flow, outside = "other", 0
			}
			go func() {
				for ctx.Err() == nil {
					turn, err := q.Acquire(ctx, flow, false)
					if err != nil {
						return
					}
					turn.Charge(outside)
					time.Sleep(time.Millisecond)
					turn.Release()
					mu.Lock()
					served[flow]++
					mu.Unlock()
				}
			}()
		}
		time.Sleep(20 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if ratio := float64(served["other"]) / float64(served["charged"]); ratio < 3.5 || ratio > 4.5 {
			t.Errorf("%v: not four to one", served)
		}
	})
}

// TestShareIsKept: requests that are cheaper or dearer than the last do not
// give a flow more than its share beside another, and alone it has more than
// all slots.
func TestShareIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(busy)
		ctx, cancel := context.WithCancel(t.Context())
		most := func(d time.Duration) (n int) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond / 2) {
				q.mu.Lock()
				if f := q.flows["flood"]; f != nil {
					n = max(n, f.own)
				}
				q.mu.Unlock()
			}
			return n
		}
		var mu sync.Mutex
		for i := range 64 {
			go client(ctx, q, "flood", time.Duration(1+i%9)*time.Millisecond, new(int), &mu)
		}
		time.Sleep(5 * time.Second)
		if n := most(time.Second); n != 6 {
			t.Errorf("alone: %d at once", n)
		}
		go func() {
			for ctx.Err() == nil {
				if turn, err := q.Acquire(ctx, "modest", false); err == nil {
					time.Sleep(time.Millisecond)
					turn.Release()
				}
				time.Sleep(5 * time.Millisecond)
			}
		}()
		time.Sleep(time.Second)
		if n := most(time.Second); n != 1 {
			t.Errorf("beside another: %d at once", n)
		}
		cancel()
		time.Sleep(time.Second)
	})
}

// TestIdleProcessorsAreUsed: requests that wait for something else do not keep
// others from processors that have nothing to do, of the same flow neither.
func TestIdleProcessorsAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(func() int { return 2 })
		begin := time.Now()
		var group sync.WaitGroup
		for range 60 {
			group.Go(func() {
				turn, err := q.Acquire(t.Context(), "a", false)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				turn.Release()
			})
		}
		group.Wait()
		if took := time.Since(begin); took > 1100*time.Millisecond {
			t.Errorf("60 requests that waited for a second took %v", took)
		}
	})
}

// TestNothingHoldsForever: on a machine with nothing idle, too, what lasts long
// does not keep others waiting.
func TestNothingHoldsForever(t *testing.T) {
	for _, long := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(busy)
			var group sync.WaitGroup
			for _, flow := range []string{"a", "b"} {
				group.Go(func() {
					turn, err := q.Acquire(t.Context(), flow, long)
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Hour)
					turn.Release()
				})
			}
			synctest.Wait()
			for flow, within := range map[string]time.Duration{"c": longest, "a": longestOwn} {
				if long {
					within = longest
				}
				begin := time.Now()
				turn, err := q.Acquire(t.Context(), flow, false)
				if err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(begin); waited > within+10*time.Millisecond {
					t.Errorf("long %v: %s waited for %v", long, flow, waited)
				}
				turn.Release()
			}
			group.Wait()
		})
	}
}

func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(busy)
		var held []*Turn
		for _, flow := range []string{"a", "b"} {
			turn, err := q.Acquire(t.Context(), flow, false)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, turn)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		var group sync.WaitGroup
		for range q.opts.Length {
			group.Go(func() {
				if _, err := q.Acquire(ctx, "a", false); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("waiting ended with %v", err)
				}
			})
		}
		synctest.Wait()
		if _, err := q.Acquire(ctx, "a", false); !errors.Is(err, ErrFull) {
			t.Errorf("past the length: %v", err)
		}
		group.Wait()
		if q.waiting != 0 || len(q.backlog) != 0 || q.flows["a"].waiting.Len() != 0 {
			t.Error("who has left still waits")
		}
		for _, turn := range held {
			turn.Release()
			turn.Release()
		}
		turn, err := q.Acquire(t.Context(), "a", false)
		if err != nil {
			t.Fatal(err)
		}
		turn.Move("c")
		turn.Release()
		for name, f := range q.flows {
			if f.own != 0 || f.active != 0 {
				t.Errorf("%s has %d of its share, %d at all", name, f.own, f.active)
			}
		}
		time.Sleep(2 * forgetAfter)
		q.forget(time.Now())
		if len(q.flows) != 0 || q.held.Len() != 0 {
			t.Errorf("%d flows, %d turns are left", len(q.flows), q.held.Len())
		}
	})
}

// TestTurnsRace: whatever happens at once, in the end nothing is held.
func TestTurnsRace(t *testing.T) {
	q := New(Options{Slots: 2, Alone: 6, Share: 1, Burst: 8, Length: 8, Idle: IdleProcessors})
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			for j := range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(j%5)*time.Millisecond)
				turn, err := q.Acquire(ctx, string(rune('a'+i%7)), j%3 == 0)
				if err == nil {
					if j%4 == 0 {
						turn.Move("other")
					}
					turn.Release()
				}
				cancel()
			}
		})
	}
	group.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held.Len()+q.late.Len()+q.waiting+len(q.backlog) != 0 {
		t.Errorf("%d held, %d late, %d waiting, %d flows", q.held.Len(), q.late.Len(), q.waiting, len(q.backlog))
	}
}
