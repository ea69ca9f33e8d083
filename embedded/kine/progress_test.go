package kine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	kineserver "github.com/k3s-io/kine/pkg/server"
)

// slowBackend has read every revision, but hands changes to its watches only
// when the test does. The first watch is the feed.
type slowBackend struct {
	kineserver.Backend
	mu      sync.Mutex
	watches []chan []*kineserver.Event
}

func (s *slowBackend) CurrentRevision(context.Context) (int64, error) { return 10, nil }

func (s *slowBackend) WaitForSyncTo(int64) {}

func (s *slowBackend) Watch(ctx context.Context, _, _ string, _ int64) kineserver.WatchResult {
	c := make(chan []*kineserver.Event, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches = append(s.watches, c)
	context.AfterFunc(ctx, func() { close(c) })
	return kineserver.WatchResult{Events: c, Errorc: make(chan error)}
}

// watch waits for a watch and returns it.
func (s *slowBackend) watch(t *testing.T, i int) chan []*kineserver.Event {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		there := len(s.watches) > i
		s.mu.Unlock()
		if there {
			return s.watches[i]
		}
	}
	t.Fatal("there is no such watch")
	return nil
}

func change(key string, revision int64) []*kineserver.Event {
	return []*kineserver.Event{nil, {KV: &kineserver.KeyValue{Key: key, ModRevision: revision}}}
}

func TestProgressWaitsForEveryWatch(t *testing.T) {
	inner, wg := &slowBackend{}, &sync.WaitGroup{}
	ctx, cancel := context.WithCancel(t.Context())
	defer wg.Wait()
	defer cancel()
	o, err := newOrderly(ctx, inner, wg)
	if err != nil {
		t.Fatal(err)
	}
	feed := inner.watch(t, 0)
	x := o.Watch(ctx, "/x/", "/x0", 11).Events
	gone, leave := context.WithCancel(ctx)
	y := o.Watch(gone, "/y/", "/y0", 11).Events
	behind := o.Watch(ctx, "/x/", "/x0", 12).Events // its list has revision 11
	toX := inner.watch(t, 1)
	_, _ = y, behind

	synced := func(revision int64) <-chan struct{} {
		done := make(chan struct{})
		go func() {
			o.WaitForSyncTo(revision)
			close(done)
		}()
		return done
	}
	notYet := func(done <-chan struct{}, what string) {
		t.Helper()
		select {
		case <-done:
			t.Error("progress overtakes ", what)
		case <-time.After(3 * historyTime):
		}
	}
	soon := func(done <-chan struct{}, what string) {
		t.Helper()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("no progress ", what)
		}
	}
	soon(synced(10), "without a change")
	feed <- change("/x/a", 11)
	done := synced(11)
	notYet(done, "a change on its way to the watch")
	toX <- change("/x/a", 11)
	notYet(done, "a change that the watch has not taken")
	<-x
	soon(done, "after the change")

	feed <- change("/y/a", 12)
	done = synced(12)
	notYet(done, "a change of another watch")
	leave()
	soon(done, "after the end of the watch")
	soon(synced(13), "to a revision without a change")
}

// deafBackend cannot subscribe: its watches bring nothing and never end.
type deafBackend struct {
	slowBackend
	err     error
	watched chan struct{}
}

func (d *deafBackend) Watch(context.Context, string, string, int64) kineserver.WatchResult {
	failed := make(chan error, 1)
	if d.err != nil {
		failed <- d.err
	}
	select {
	case d.watched <- struct{}{}:
	default:
	}
	return kineserver.WatchResult{Events: make(chan []*kineserver.Event), Errorc: failed}
}

// A watch that failed says so to its client, and the feed is asked for again;
// both end with their contexts.
func TestWatchesThatCannotSubscribe(t *testing.T) {
	for name, failure := range map[string]error{"and say so": errors.New("the database is away"), "and say nothing": nil} {
		t.Run(name, func(t *testing.T) {
			inner, wg := &deafBackend{err: failure, watched: make(chan struct{}, 3)}, &sync.WaitGroup{}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o, err := newOrderly(ctx, inner, wg)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				watch := o.Watch(ctx, "/x/", "/x0", 11)
				for range watch.Events {
					t.Error("an event of nothing")
				}
				select {
				case err := <-watch.Errorc:
					if !errors.Is(err, failure) {
						t.Error(err)
					}
				default:
					if failure != nil {
						t.Error("the failure is lost")
					}
				}
			}()
			soon := func(done <-chan struct{}, what string) {
				t.Helper()
				select {
				case <-done:
				case <-time.After(time.Minute):
					t.Fatal(what)
				}
			}
			if failure != nil {
				soon(ended, "the watch does not end")
				for range 3 {
					soon(inner.watched, "the feed is not asked for again")
				}
			}
			cancel()
			stopped := make(chan struct{})
			go func() {
				wg.Wait()
				close(stopped)
			}()
			soon(ended, "the watch does not end")
			soon(stopped, "the feed does not end")
		})
	}
}
