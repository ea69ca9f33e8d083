package fairqueue

import (
	"context"
	"testing"
)

// TestKeptBytes counts what the requests of a flow keep in memory, and refuses what would be
// too much.
func TestKeptBytes(t *testing.T) {
	q := New(Options{Seats: 8, Share: 8, Length: 8, Kept: 100, Busy: func() int { return 0 }})
	seat := func(flow string) *Seat {
		t.Helper()
		s, err := q.Acquire(context.Background(), flow)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	want := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	a1, a2, b := seat("a"), seat("a"), seat("b")
	want("one alone keeps any number", a1.Keep(1000), true)
	want("another of the flow", a2.Keep(1), false)
	want("one of another flow", b.Keep(60), true)
	a1.Let(950)
	want("up to the bound", a2.Keep(50), true)
	want("beyond", a2.Keep(1), false)
	b.Move("a")
	a2.Let(1000)
	want("the bytes of a request move with it", a2.Keep(1), false)
	a1.Release()
	want("and go with a request that ends", a2.Keep(40), true)
	want("which keeps none afterwards", a1.Keep(1), false)
	b.Release()
	a2.Release()
	last := seat("a")
	want("in the end nothing is kept", last.Keep(1), true)
	want("", last.Keep(99), true)
	last.Release()
	want("a request without a seat", (*Seat)(nil).Keep(1000), true)
	(*Seat)(nil).Let(1)
}
