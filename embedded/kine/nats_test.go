package kine

import (
	"context"
	"errors"
	"slices"
	"testing"

	kineserver "github.com/k3s-io/kine/pkg/server"
)

// scripted is a backend whose watches bring what it has for them, one after another.
type scripted struct {
	kineserver.Backend
	current int64
	watches [][]kineserver.EventBatch
	failure error
	asked   int
}

func (s *scripted) CurrentRevision(context.Context) (int64, error) { return s.current, nil }

func (s *scripted) Watch(context.Context, int64) kineserver.WatchResult {
	events, failed := make(chan kineserver.EventBatch, 100), make(chan error, 1)
	if s.asked < len(s.watches) {
		for _, b := range s.watches[s.asked] {
			events <- b
		}
		close(events)
	} else if s.failure != nil {
		events <- kineserver.EventBatch{}
		failed <- s.failure
	} else {
		events <- kineserver.EventBatch{}
	}
	s.asked++
	return kineserver.WatchResult{Eventc: events, Errorc: failed}
}

func batch(current int64, revisions ...int64) kineserver.EventBatch {
	b := kineserver.EventBatch{CurrentRev: current}
	for _, r := range revisions {
		b.Events = append(b.Events, &kineserver.Event{KV: &kineserver.KeyValue{Key: "/x", ModRevision: r}})
	}
	return b
}

// A change that comes again, as all do when kine begins anew to watch NATS, is left
// out: kine's server would end the process.
func TestWatchesOfNATSNeverGoBack(t *testing.T) {
	o := onward{&scripted{watches: [][]kineserver.EventBatch{{batch(5, 3, 5), batch(6, 6), batch(3, 3),
		batch(6, 6), batch(7, 7)}}}}
	var got []int64
	for b := range o.Watch(t.Context(), 3).Eventc {
		for _, e := range b.Events {
			got = append(got, e.KV.ModRevision)
		}
	}
	if want := []int64{3, 5, 6, 7}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestNATSSettles(t *testing.T) {
	// The first watch is dropped, the second comes up to the current revision.
	s := &scripted{current: 3,
		watches: [][]kineserver.EventBatch{{batch(3), batch(1, 1)}, {batch(3), batch(2), batch(3)}}}
	if err := (onward{s}).settle(t.Context()); err != nil || s.asked != 2 {
		t.Errorf("after %d watches: %v", s.asked, err)
	}
	// A last change that is none of a key never comes.
	if err := (onward{&scripted{current: 3}}).settle(t.Context()); err != nil {
		t.Error(err)
	}
	failure := errors.New("no responders")
	if err := (onward{&scripted{current: 3, failure: failure}}).settle(t.Context()); !errors.Is(err, failure) {
		t.Error(err)
	}
}
