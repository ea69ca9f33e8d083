package fairqueue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// book is an account that keeps what it is told, by flow and work.
type book map[string][2]time.Duration

func (b book) Used(flow string, work Work, computed, waited time.Duration) {
	key := fmt.Sprint(flow, work)
	b[key] = [2]time.Duration{b[key][0] + computed, b[key][1] + waited}
}

func (b book) check(t *testing.T, want book) {
	t.Helper()
	if fmt.Sprint(b) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", b, want)
	}
}

// The account is told what a request computes in seats, what for and in which flow, and how
// long it waits for them, each once.
func TestAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := book{}
		q := New(Options{Seats: 1, Share: 1, Length: 8, Busy: busy, Account: told})
		first, err := q.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		first.Does(1)
		time.Sleep(100 * time.Millisecond)
		q.Tell()
		told.check(t, book{"a1": {100 * time.Millisecond, 0}})

		next := make(chan *Seat)
		go func() {
			seat, err := q.Acquire(t.Context(), "b")
			if err != nil {
				t.Error(err)
			}
			seat.Does(2)
			next <- seat
		}()
		synctest.Wait()
		time.Sleep(50 * time.Millisecond)
		over := first.Meanwhile(3)
		time.Sleep(20 * time.Millisecond)
		over()
		time.Sleep(5 * time.Millisecond)
		first.Release()
		second := <-next
		told.check(t, book{"a1": {155 * time.Millisecond, 0}, "a3": {20 * time.Millisecond, 0}})

		time.Sleep(10 * time.Millisecond)
		second.Move("c")
		second.Wait(func() { time.Sleep(time.Second) }) // in its seat, which nobody wants
		second.Yield()
		second.Yield()
		second.Need()
		time.Sleep(time.Millisecond)
		second.Release()
		q.Tell()
		told.check(t, book{"a1": {155 * time.Millisecond, 0}, "a3": {20 * time.Millisecond, 0},
			"c2": {11 * time.Millisecond, 75 * time.Millisecond}})
	})
}

// What comes back to its seat has waited for it.
func TestAccountOfWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := book{}
		q := New(Options{Seats: 1, Share: 1, Length: 8, Busy: busy, Account: told})
		first, err := q.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		first.Yield()
		second, err := q.Acquire(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(30 * time.Millisecond)
			second.Release()
		}()
		first.Need()
		first.Release()
		told.check(t, book{"a0": {0, 30 * time.Millisecond}, "b0": {30 * time.Millisecond, 0}})
	})
}
