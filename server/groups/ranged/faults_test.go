package ranged_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/tests/plainetcd"
)

// between is a watcher whose responses pass through something.
type between struct {
	clientv3.Watcher
	// pass hands on what comes of a watch from a key.
	pass func(ctx context.Context, key string, in <-chan clientv3.WatchResponse, out chan<- clientv3.WatchResponse)
	// asked counts the questions how far watches are.
	asked atomic.Int64
}

func (b *between) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	in := b.Watcher.Watch(ctx, key, opts...)
	if b.pass == nil {
		return in
	}
	out := make(chan clientv3.WatchResponse)
	go func() {
		defer close(out)
		b.pass(ctx, key, in, out)
	}()
	return out
}

func (b *between) RequestProgress(ctx context.Context) error {
	b.asked.Add(1)
	return b.Watcher.RequestProgress(ctx)
}

// late hands on each response some time after it came, of the configurations up to ten
// times as late as of others, and all in their order.
func late(ctx context.Context, key string, in <-chan clientv3.WatchResponse, out chan<- clientv3.WatchResponse) {
	most := 2 * time.Millisecond
	if key == configs {
		most *= 10
	}
	type due struct {
		r  clientv3.WatchResponse
		at time.Time
	}
	var queue []due
	for in != nil || len(queue) > 0 {
		var first <-chan time.Time
		if len(queue) > 0 {
			first = time.After(time.Until(queue[0].at))
		}
		select {
		case r, ok := <-in:
			if !ok {
				in = nil
				continue
			}
			queue = append(queue, due{r, time.Now().Add(rand.N(most))})
		case <-first:
			select {
			case out <- queue[0].r:
				queue = queue[1:]
			case <-ctx.Done():
				return
			}
		}
	}
}

// TestMovesWithLateConfigurations is TestMovesUnderWrites with watches that are each late,
// that of the configurations most.
func TestMovesWithLateConfigurations(t *testing.T) {
	movesUnderWrites(t, 15, func(w clientv3.Watcher) clientv3.Watcher { return &between{Watcher: w, pass: late} })
}

// TestEventsAfterAFalseAnswer: when etcd has said that a watch is further than it is, and an
// event comes that should have been before others, the watch ends as a compacted one does.
func TestEventsAfterAFalseAnswer(t *testing.T) {
	etcd := plainetcd.Run(t)
	fill(t, etcd)
	begin := configure(t, etcd, "0", "", "m")
	var mu sync.Mutex
	var held bool
	hold := func(is bool) {
		mu.Lock()
		defer mu.Unlock()
		held = is
	}
	says := make(chan int64)
	own := plainetcd.Dial(t, etcd.Endpoints()...)
	source := group(t, etcd, "0")
	c := source.New(ofPods(), own.KV, &between{Watcher: own.Watcher, pass: func(
		ctx context.Context, key string, in <-chan clientv3.WatchResponse, out chan<- clientv3.WatchResponse,
	) {
		var queue []clientv3.WatchResponse
		send := func(r clientv3.WatchResponse) {
			select {
			case out <- r:
			case <-ctx.Done():
			}
		}
		system := key == pods+"zoo/" // it is outside of the range
		for {
			wrong := says
			if !system {
				wrong = nil
			}
			select {
			case r, ok := <-in:
				if !ok {
					return
				}
				queue = append(queue, r)
			case at := <-wrong:
				send(clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: at}})
			case <-time.After(time.Millisecond):
			}
			mu.Lock()
			wait := held && system
			mu.Unlock()
			for !wait && len(queue) > 0 {
				send(queue[0])
				queue = queue[1:]
			}
		}
	}}, nil)
	w := watch(t, c, pods, begin+1)
	w.until(put(t, etcd, pods+"zoo/web", "1")) // all is open
	hold(true)
	put(t, etcd, pods+"zoo/web", "2")
	at := put(t, etcd, pods+"a/default/web", "2")
	says <- at
	if events := w.until(at); len(events) != 1 || !strings.HasPrefix(events[0], "+a/default/web=2") {
		t.Fatalf("events are %q", events)
	}
	hold(false)
	for timeout := time.After(deadline); ; {
		select {
		case r, ok := <-w.ch:
			switch {
			case errors.Is(r.Err(), rpctypes.ErrCompacted):
				return
			case !ok || r.Err() != nil || len(r.Events) > 0:
				t.Fatalf("%+v %v, want the end of the watch", r, ok)
			}
		case <-timeout:
			t.Fatal("the watch does not end")
		}
	}
}

// TestQuestionsAreFew: an event that waits for a watch which has just been opened, while
// nothing else happens, does not make the server ask etcd as fast as that answers.
func TestQuestionsAreFew(t *testing.T) {
	etcd := plainetcd.Run(t)
	fill(t, etcd)
	begin := configure(t, etcd, "0", "", "m")
	source := group(t, etcd, "0")
	reads := &holding{KV: source.Client.KV, come: make(chan struct{}), goOn: make(chan struct{})}
	source.Client.KV = reads
	own := plainetcd.Dial(t, etcd.Endpoints()...)
	watcher := &between{Watcher: own.Watcher}
	w := watch(t, source.New(ofPods(), own.KV, watcher, nil), pods, begin+1)
	at := put(t, etcd, pods+"zoo/web", "1")
	w.until(at)

	reads.at.Store(at + 1)
	configure(t, etcd, "0", "", "n")
	<-reads.come
	last := put(t, etcd, pods+"zoo/web", "2") // before the new watches are opened
	before := watcher.asked.Load()
	close(reads.goOn)
	for done := int64(0); done < last; {
		select {
		case r, ok := <-w.ch:
			if err := r.Err(); err != nil || !ok {
				t.Fatalf("the watch ended: %v", err)
			}
			for _, e := range r.Events {
				done = e.Kv.ModRevision
			}
		case <-time.After(deadline):
			t.Fatal("the event does not come")
		}
	}
	asked := watcher.asked.Load() - before
	if t.Logf("asked %d times", asked); asked > 100 {
		t.Errorf("etcd was asked %d times", asked)
	}
}

// holding waits with the reads of a change.
type holding struct {
	clientv3.KV
	at         atomic.Int64
	come, goOn chan struct{}
	once       sync.Once
}

func (h *holding) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if op := clientv3.OpGet(key, opts...); op.Rev() == h.at.Load() && op.Limit() > 0 {
		h.once.Do(func() { close(h.come) })
		<-h.goOn
	}
	return h.KV.Get(ctx, key, opts...)
}
