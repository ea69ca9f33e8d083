package fairqueue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func acquire(t *testing.T, q *Queue, flow string) *Seat {
	t.Helper()
	s, err := q.Acquire(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// soon acquires a seat in the background; the channel has it.
func soon(t *testing.T, q *Queue, flow string) <-chan *Seat {
	t.Helper()
	got := make(chan *Seat, 1)
	go func() {
		s, err := q.Acquire(t.Context(), flow)
		if err != nil {
			t.Error(err)
		}
		got <- s
	}()
	synctest.Wait()
	return got
}

func has(c <-chan *Seat) bool { return len(c) > 0 }

// TestSeatIsTakenFromWhatWaits: and from nothing that computes.
func TestSeatIsTakenFromWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(busy)
		computes, waits := acquire(t, q, "a"), acquire(t, q, "b")
		next := soon(t, q, "c")
		time.Sleep(longest / 2)
		if has(next) {
			t.Fatal("a seat was taken from what computes")
		}
		waits.BeginWait()
		time.Sleep(3 * tick)
		if !has(next) {
			t.Fatal("what waits keeps its seat")
		}
		if computes.state.Load() == lost || waits.state.Load() != lost+1 {
			t.Error("the wrong seat was taken")
		}
		waits.EndWait()
		back := make(chan struct{})
		go func() { waits.Need(); close(back) }()
		synctest.Wait()
		select {
		case <-back:
			t.Fatal("it computes again without a seat")
		default:
		}
		(<-next).Release()
		<-back
		if waits.state.Load() != 0 {
			t.Errorf("its state is %x", waits.state.Load())
		}
		computes.Release()
		waits.Release()
	})
}

// TestWhoWaitsGivesUpAtOnce: a request that comes while another has waited for a while
// does not wait for the next tick.
func TestWhoWaitsGivesUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(busy)
		a := acquire(t, q, "a")
		defer a.Release()
		a.BeginWait()
		time.Sleep(tick)
		began := time.Now()
		acquire(t, q, "a").Release()
		if waited := time.Since(began); waited > 0 {
			t.Errorf("it waited for %v", waited)
		}
	})
}

// TestWhoComesBackIsFirst: before what has not begun, in the order in which they came back.
func TestWhoComesBackIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(busy)
		var order []int
		holder := acquire(t, q, "a")
		var seats [2]*Seat
		for i := range seats { // each takes the place of the one before, which waits
			holder.BeginWait()
			time.Sleep(2 * tick)
			seats[i] = holder
			holder = acquire(t, q, "a")
		}
		fresh := soon(t, q, "a")
		for i, s := range seats {
			s.EndWait()
			go func() {
				s.Need()
				order = append(order, i)
				s.Release()
			}()
			synctest.Wait()
		}
		if has(fresh) || len(order) > 0 {
			t.Fatal("the share of the flow is not kept")
		}
		holder.Release()
		synctest.Wait()
		if len(order) != 2 || order[0] != 0 || !has(fresh) {
			t.Errorf("they came back in the order %v", order)
		}
		(<-fresh).Release()
	})
}

// TestWaitsAreCounted: of several waits at once the last one ends it, and nobody needs a
// seat before.
func TestWaitsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(busy)
		s := acquire(t, q, "a")
		defer s.Release()
		s.BeginWait()
		s.BeginWait()
		time.Sleep(2 * tick)
		other := acquire(t, q, "a")
		s.EndWait()
		s.Need() // or it would wait for ever
		s.EndWait()
		other.Release()
		s.Need()
		if s.state.Load() != 0 || q.flows["a"].own != 1 {
			t.Errorf("state %x, %d seats", s.state.Load(), q.flows["a"].own)
		}
	})
}

// TestWaitsAreNotCharged: a flow pays for the time in which its request has a seat and
// does not wait, whether the seat was taken or not.
func TestWaitsAreNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, taken := range []bool{false, true} {
			q := newQueue(busy)
			s := acquire(t, q, "a")
			time.Sleep(10 * time.Millisecond)
			s.Wait(func() {
				time.Sleep(time.Minute)
				if taken {
					acquire(t, q, "a").Release()
				}
			})
			s.Need()
			time.Sleep(10 * time.Millisecond)
			s.BeginWait()
			time.Sleep(time.Minute)
			s.Release()
			if used := q.flows["a"].used; used < 0.019 || used > 0.021 {
				t.Errorf("taken %v: charged for %v s", taken, used)
			}
			if q.running.Len() != 0 || q.flows["a"].inside != 0 {
				t.Error("the seat is not given back")
			}
		}
	})
}

// TestInsideIsBounded: what waits for something else is bounded, too, but for what has no
// end, and what has begun comes back in any case.
func TestInsideIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Seats: 2, Share: 1, Length: 8, Inside: 2, Busy: busy})
		first := acquire(t, q, "a")
		first.Yield()
		second := acquire(t, q, "a")
		second.Yield()
		third := soon(t, q, "a")
		acquire(t, q, "b").Release() // another flow
		first.Need()
		first.Yield()
		time.Sleep(time.Minute)
		if has(third) {
			t.Fatal("a third is inside")
		}
		second.Endless()
		synctest.Wait()
		if !has(third) {
			t.Fatal("what has no end counts")
		}
		(<-third).Yield()
		fourth := soon(t, q, "a")
		if has(fourth) {
			t.Fatal("a fourth is inside")
		}
		first.Move("b")
		synctest.Wait()
		if !has(fourth) || q.flows["b"].begun != 1 {
			t.Error("what has moved counts where it was")
		}
		first.Release()
		second.Release()
		(<-fourth).Release()
		if q.flows["b"].begun != 0 || q.flows["a"].begun != 1 {
			t.Errorf("%d and %d are left", q.flows["a"].begun, q.flows["b"].begun)
		}
	})
}

// TestHandlerEndsTheSeat: who has answered for a request, since its time is over, does not
// end what it computes.
func TestHandlerEndsTheSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(busy)
		s := acquire(t, q, "a")
		s.Hold() // the handler
		s.Release()
		next := soon(t, q, "a")
		time.Sleep(longest / 2)
		if has(next) {
			t.Fatal("it computes, and another of its flow, too")
		}
		s.Release()
		(<-next).Release()
		s.Release() // more often than held
		if q.running.Len() != 0 || q.flows["a"].inside != 0 || q.flows["a"].own != 0 {
			t.Error("a seat is left")
		}
	})
}

// TestWhoLeavesDoesNotWait: a request whose client goes waits no more for its first seat,
// and one that began before waits for as long as it takes.
func TestWhoLeavesDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(busy)
		holder := acquire(t, q, "a")
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := q.Acquire(ctx, "a")
			gone <- err
		}()
		synctest.Wait()
		leave()
		if err := <-gone; err == nil || q.waiting != 0 || q.flows["a"].inside != 1 {
			t.Errorf("%v; %d wait, %d are inside", err, q.waiting, q.flows["a"].inside)
		}
		holder.Release()
		var none *Seat // who needs none
		none.Wait(func() {})
		none.Need()
		none.Hold()
		none.Release()
		if Of(t.Context()) != nil || Of(With(t.Context(), holder)) != holder {
			t.Error("the seat of the context")
		}
	})
}
