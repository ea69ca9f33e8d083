package edge

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// A document that many ask for at once is built once, and one that is not everybody's is
// nobody's but that of who asked.
func TestDocumentsAreBuiltOnce(t *testing.T) {
	for name, c := range map[string]struct {
		everybodys bool
		err        error
		panics     bool
		built      int64
	}{
		"everybody's":       {everybodys: true, built: 1},
		"of who asked":      {built: 8},
		"not to be built":   {everybodys: true, err: errors.New("no"), built: 8},
		"a build that ends": {everybodys: true, panics: true, built: 8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b builds
				var built atomic.Int64
				began := time.Now()
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						defer func() { _ = recover() }()
						own := &discoveryDocument{}
						m, err := b.do(t.Context(), "key", func() (*discoveryDocument, bool, error) {
							built.Add(1)
							time.Sleep(time.Second)
							if c.panics {
								panic("a fault")
							}
							return own, c.everybodys, c.err
						})
						if !errors.Is(err, c.err) || err == nil && m == nil || c.built > 1 && m != own {
							t.Errorf("%v %v", m, err)
						}
					})
				}
				all.Wait()
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("all of them took %s, each a second", took)
				}
				if n := built.Load(); n != c.built {
					t.Errorf("%d were built, want %d", n, c.built)
				}
				if len(b.running) > 0 {
					t.Error("one is taken for one that goes on")
				}
			})
		})
	}
}

// Who waits for a build leaves with their client, and computes in a seat again: those of one
// tenant take no more of the processors than its share.
func TestDocumentsAreBuiltInSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := fairqueue.New(fairqueue.Options{Seats: 2, Share: 1, Length: 8, Busy: func() int { return 1000 }})
		var b builds
		build := func(ctx context.Context, flow, key string, during func()) error {
			seat, err := q.Acquire(ctx, flow)
			if err != nil {
				return err
			}
			defer seat.Release()
			seat.Yield() // as after what upstream was asked
			_, err = b.do(fairqueue.With(ctx, seat), key, func() (*discoveryDocument, bool, error) {
				during()
				return &discoveryDocument{}, true, nil
			})
			return err
		}
		var now, most atomic.Int64
		var running atomic.Value
		var all sync.WaitGroup
		for _, key := range []string{"1", "2", "3", "4"} {
			all.Go(func() {
				if err := build(t.Context(), "a", key, func() {
					running.Store(key)
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(time.Second)
					now.Add(-1)
				}); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := build(ctx, "b", running.Load().(string), func() { t.Error("built a second time") }); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("who left: %v", err)
		}
		began := time.Now()
		if err := build(t.Context(), "b", "5", func() {}); err != nil || time.Since(began) > 0 {
			t.Errorf("another tenant's: %v after %s", err, time.Since(began))
		}
		all.Wait()
		if most.Load() != 1 {
			t.Errorf("one tenant had %d built at a time beside another, want 1", most.Load())
		}
	})
}
