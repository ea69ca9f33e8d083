package kine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	kineserver "github.com/k3s-io/kine/pkg/server"
)

const (
	// historyTime is how long a new watch may take for the changes that were
	// there before it; they are on their way already.
	historyTime = 100 * time.Millisecond
	// feedTime bounds how long a revision may take from the poll of the
	// database to the feed. A revision that holds nothing never gets there.
	feedTime = time.Second
)

// orderly is a backend whose watches are told how far they have come after the
// changes up to there, and not before. kine waits until it has read a revision
// from the database; from there a change passes through three goroutines to its
// watch, and progress overtakes it. The API server would answer a consistent
// list without the change, and those who watch on from that list would never
// hear of it. Its answers know of every write that was acknowledged before them.
type orderly struct {
	kineserver.Backend
	ctx   context.Context
	acked atomic.Int64 // highest revision of an acknowledged write

	mu      sync.Mutex
	changed *sync.Cond
	seen    int64 // the revision up to which the feed has come
	watches map[*following]struct{}
}

// following is one watch.
type following struct {
	key, end string
	from     int64
	want     int64 // revision of the last change that is for it
	got      int64 // revision of the last change that it has taken
	settled  bool  // its history was delivered
}

// newOrderly wraps a backend that has started. It works until ctx ends.
func newOrderly(ctx context.Context, inner kineserver.Backend, wg *sync.WaitGroup) (*orderly, error) {
	seen, err := inner.CurrentRevision(ctx)
	if err != nil {
		return nil, err
	}
	o := &orderly{Backend: inner, ctx: ctx, seen: seen, watches: map[*following]struct{}{}}
	o.changed = sync.NewCond(&o.mu)
	context.AfterFunc(ctx, o.wake)
	wg.Go(o.feed)
	return o, nil
}

func (o *orderly) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed.Broadcast()
}

// feed sees all changes, as one more watch.
func (o *orderly) feed() {
	for o.ctx.Err() == nil {
		all := o.Backend.Watch(o.ctx, "", "", o.seen+1) // nobody else writes seen
		_ = take(o.ctx, all, o.note)
		if all.CompactRevision > 0 {
			o.mu.Lock()
			o.seen = max(o.seen, all.CompactRevision)
			o.mu.Unlock()
		}
		select {
		case <-o.ctx.Done():
		case <-time.After(historyTime): // it was too slow, or the database is away
		}
	}
}

// take hands on what a watch brings until it or ctx ends. A watch of kine's that
// could not subscribe, as the database was away or its context over, says at
// most that it has failed: its events never end.
func take(ctx context.Context, watch kineserver.WatchResult, each func([]*kineserver.Event)) error {
	for {
		select {
		case events, more := <-watch.Events:
			if !more {
				select {
				case err := <-watch.Errorc:
					return err
				default:
					return nil
				}
			}
			each(events)
			continue
		case err := <-watch.Errorc:
			drain(watch)
			return err
		case <-ctx.Done():
			drain(watch)
			return nil
		}
	}
}

// drain takes what is left, as those who send it wait for that.
func drain(watch kineserver.WatchResult) {
	go func() {
		for range watch.Events {
		}
	}()
}

func (o *orderly) note(events []*kineserver.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range events {
		if e == nil || e.KV == nil {
			continue
		}
		o.seen = max(o.seen, e.KV.ModRevision)
		for w := range o.watches {
			if e.KV.ModRevision >= w.from && e.InRange(w.key, w.end) {
				w.want = e.KV.ModRevision
			}
		}
	}
	o.changed.Broadcast()
}

// Watch implements server.Backend.
func (o *orderly) Watch(ctx context.Context, key, end string, revision int64) kineserver.WatchResult {
	w := &following{key: key, end: end, from: revision}
	o.mu.Lock()
	o.watches[w] = struct{}{}
	o.mu.Unlock()
	answer := o.Backend.Watch(ctx, key, end, revision)
	history := time.AfterFunc(historyTime, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		w.settled = true
		o.changed.Broadcast()
	})
	out := make(chan []*kineserver.Event) // what is taken from it is on its way to the client
	failed := make(chan error, 1)
	go func(inner kineserver.WatchResult) {
		defer close(out)
		defer func() {
			history.Stop()
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(o.watches, w)
			o.changed.Broadcast()
		}()
		err := take(ctx, inner, func(events []*kineserver.Event) {
			if len(events) == 0 {
				return
			}
			if inner.CompactRevision == 0 {
				out <- events
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			w.got = events[len(events)-1].KV.ModRevision
			o.changed.Broadcast()
		})
		if err != nil {
			failed <- err
		}
	}(answer)
	answer.Errorc = failed
	answer.Events = out
	return answer
}

// WaitForSyncTo implements server.Backend: it returns when all watches have
// taken what there was for them up to the revision.
func (o *orderly) WaitForSyncTo(revision int64) {
	o.Backend.WaitForSyncTo(revision)
	late := false
	timer := time.AfterFunc(feedTime, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		late = true
		o.changed.Broadcast()
	})
	defer timer.Stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.seen < revision && !late && o.ctx.Err() == nil {
		o.changed.Wait()
	}
	// What comes from now on need not be waited for.
	want := make(map[*following]int64, len(o.watches))
	for w := range o.watches {
		want[w] = w.want
	}
	for w, last := range want {
		for o.ctx.Err() == nil {
			if _, there := o.watches[w]; !there || w.settled && w.got >= last {
				break
			}
			o.changed.Wait()
		}
	}
}
