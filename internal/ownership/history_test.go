package ownership

import (
	"slices"
	"testing"
)

type dated int64

// Since implements Dated.
func (d dated) Since() int64 { return int64(d) }

func TestHistory(t *testing.T) {
	var h History[dated]
	if _, _, ok := h.Ends(); ok {
		t.Error("it knows something from the beginning")
	}
	if _, ok := h.At(5); ok {
		t.Error("it knows what was in force before anything was")
	}
	if after, ok := h.After(5); ok || len(after) > 0 {
		t.Errorf("it knows what came after: %v", after)
	}
	h.Add(5) // forgotten by what begins
	h.Begin(10)
	h.Add(20)
	h.Add(30)
	for rev, want := range map[int64]struct {
		at          dated
		from, after []dated
		ok          bool
	}{
		9:  {after: []dated{10, 20, 30}},
		10: {10, []dated{10, 20, 30}, []dated{20, 30}, true},
		25: {20, []dated{20, 30}, []dated{30}, true},
		30: {30, []dated{30}, nil, true},
		99: {30, []dated{30}, nil, true},
	} {
		at, ok := h.At(rev)
		from, fromOK := h.From(rev)
		after, afterOK := h.After(rev)
		if at != want.at || ok != want.ok || fromOK != ok || afterOK != ok || !slices.Equal(from, want.from) ||
			!slices.Equal(after, want.after) {
			t.Errorf("at %d: %d %t, from %v %t, after %v %t", rev, at, ok, from, fromOK, after, afterOK)
		}
	}
	kept, _ := h.From(10)
	for i := range remembered {
		h.Add(dated(100 + i))
	}
	if oldest, last, ok := h.Ends(); !ok || oldest != 100 || last != 100+remembered-1 {
		t.Errorf("it remembers %d to %d", oldest, last)
	}
	if _, ok := h.From(99); ok {
		t.Error("what it has forgotten is known")
	}
	if !slices.Equal(kept, []dated{10, 20, 30}) {
		t.Errorf("what it returned has changed: %v", kept)
	}
}
