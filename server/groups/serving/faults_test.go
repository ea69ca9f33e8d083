package serving

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/tests/cable"
	"github.com/a4s-io/a4s/tests/plainetcd"
)

// inMidMove calls something, once for each time that it is armed, between the first and
// the second page that a server reads of tenants that move.
type inMidMove struct {
	clientv3.KV
	call *armed
}

type armed struct {
	mu    sync.Mutex
	pages int
	do    func()
}

// arm has the next move call something, and returns what is closed then.
func (a *armed) arm(do func()) <-chan struct{} {
	done := make(chan struct{})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pages = 0
	a.do = func() {
		defer close(done)
		do()
	}
	return done
}

func (a *armed) page() {
	a.mu.Lock()
	do := a.do
	if a.pages++; do == nil || a.pages < 2 {
		a.mu.Unlock()
		return
	}
	a.do = nil
	a.mu.Unlock()
	do()
}

func (a *armed) behind(kv clientv3.KV) clientv3.KV { return inMidMove{kv, a} }

// Get implements clientv3.KV. What is read of tenants that move has a limit.
func (i inMidMove) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if op := clientv3.OpGet(key, opts...); op.Rev() > 0 && op.Limit() > 0 && strings.HasPrefix(key, root+prefix+"/") {
		i.call.page()
	}
	return i.KV.Get(ctx, key, opts...)
}

func expectDone(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(deadline):
		t.Fatalf("%s does not happen", what)
	}
}

// TestLeaderDiesInMidMove kills the leader of etcd while a server reads tenants that move.
func TestLeaderDiesInMidMove(t *testing.T) {
	etcd, members := plainetcd.Cluster(t, 3)
	prepare(t, etcd)
	s := newScene(t, etcd)
	one := &armed{}
	s.serve("0", server(t, etcd, "0"))
	s.serve("1", serverBehind(t, etcd, "1", one.behind))
	s.awaitMirrors()
	s.write()
	killed := one.arm(func() {
		for _, m := range members {
			if m.Server.MemberID() == m.Server.Leader() {
				m.Kill()
				return
			}
		}
		t.Error("etcd has no leader")
	})
	s.split("t1")
	expectDone(t, "the move", killed)
	s.split("t3")
	s.split("t2")
	s.end()
}

// TestCompactedInMidMove compacts etcd while servers read tenants that move, so that the
// rest cannot be read as of the revision of the move.
func TestCompactedInMidMove(t *testing.T) {
	etcd := runEtcd(t)
	s := newScene(t, etcd)
	calls := map[string]*armed{"0": {}, "1": {}}
	for group, a := range calls {
		s.serve(group, serverBehind(t, etcd, group, a.behind))
	}
	s.awaitMirrors()
	s.write()
	before := "t2"
	for i, bound := range []string{"t1", "t3", "t0", "t2"} {
		group, began := fmt.Sprint(i%2), time.Now()
		compacted := calls[group].arm(func() {
			now, err := etcd.Get(context.Background(), "x")
			if err == nil {
				_, err = etcd.Compact(context.Background(), now.Header.Revision)
			}
			if err != nil {
				t.Error(err)
			}
		})
		// A cache that lists anew because of the last compaction can begin after the move; it
		// then reads nothing in mid-move that could be interrupted. So move again.
		for s.met(s.split(bound)); !closed(compacted); s.met(s.split(bound)) {
			if time.Since(began) > deadline {
				t.Fatalf("move %d of group %s does not happen", i, group)
			}
			s.met(s.split(before))
		}
		before = bound
	}
	s.end()
}

// TestMovesInARow stores a move while the one before is being read: who watches notices
// neither.
func TestMovesInARow(t *testing.T) {
	etcd := runEtcd(t)
	s := newScene(t, etcd)
	calls := &armed{}
	s.serve("0", server(t, etcd, "0"))
	s.serve("1", serverBehind(t, etcd, "1", calls.behind))
	s.awaitMirrors()
	s.write()
	for i := range 6 {
		moved := calls.arm(func() { s.split("t2") })
		s.split([]string{"t1", "t3"}[i%2])
		expectDone(t, fmt.Sprint("move ", i), moved)
	}
	s.end()
	// On a busy machine the cache ends a watch that is too slow, and its client goes on with
	// another one.
	if lists, _ := s.again(); lists > 0 {
		t.Errorf("clients listed %d times again", lists)
	}
}

// TestStalledWatches has clients that stop reading before their tenants move, and go on
// after thousands of events. They lose nothing, or are told to list again.
func TestStalledWatches(t *testing.T) {
	etcd := runEtcd(t)
	s := newScene(t, etcd)
	s.serve("0", server(t, etcd, "0"))
	s.serve("1", server(t, etcd, "1"))
	s.awaitMirrors()
	var goOn []func()
	for i, m := range s.mirrors {
		if i%2 == 0 {
			goOn = append(goOn, m.stall())
		}
	}
	for _, bound := range []string{"t3", "t1", "t3", "t2"} { // two tenants stay
		for range 300 {
			for _, tenant := range s.tenants {
				s.put(t.Context(), tenant)
			}
		}
		s.split(bound)
	}
	for _, read := range goOn {
		read()
	}
	s.end()
}

// TestCutInMidMove cuts a server off from etcd while it reads tenants that move, until it
// has noticed, with moves and writes meanwhile. It notices within 13 seconds here, and
// within 40 in an API server, by the same means.
func TestCutInMidMove(t *testing.T) {
	etcd := runEtcd(t)
	s := newScene(t, etcd)
	line := cable.New(t, strings.TrimPrefix(etcd.Endpoints()[0], "http://"))
	calls := &armed{}
	s.serve("0", server(t, etcd, "0"))
	s.serve("1", serverBehind(t, plainetcd.Dial(t, "http://"+line.Address()), "1", calls.behind))
	s.awaitMirrors()
	s.write()
	cut := calls.arm(line.Cut)
	s.split("t1")
	expectDone(t, "the move", cut)
	connections := line.Connections()
	for _, bound := range []string{"t3", "t0", "t2"} {
		s.split(bound)
	}
	for start := time.Now(); line.Connections() == connections; time.Sleep(pause) {
		if time.Since(start) > deadline {
			t.Fatal("the server does not notice")
		}
	}
	line.Mend()
	s.split("t1")
	s.end()
}
