package ranged_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/tests/plainetcd"
	"github.com/a4s-io/a4s/tests/sizes"
)

// TestMovesUnderWrites moves boundaries while tenants write, and compares what each group
// saw with what etcd says: nothing is lost, nothing comes twice or out of order, and what
// moved is put in and taken out at the revision of the move. A4S_MOVES is how many there
// are.
func TestMovesUnderWrites(t *testing.T) {
	movesUnderWrites(t, sizes.Of(t, "A4S_MOVES", 40), func(w clientv3.Watcher) clientv3.Watcher { return w })
}

// movesUnderWrites has the watchers of the groups behind something.
func movesUnderWrites(t *testing.T, moves int, behind func(clientv3.Watcher) clientv3.Watcher) {
	etcd := plainetcd.Run(t)
	tenants := make([]string, 12)
	for i := range tenants {
		tenants[i] = fmt.Sprintf("t%02d", i)
		if i%3 == 2 {
			tenants[i] = tenants[i-1] + "-x" // its name begins with that of another one
		}
		for pod := range 30 {
			put(t, etcd, fmt.Sprintf("%s%s/default/p%d", pods, tenants[i], pod), "0")
		}
	}
	put(t, etcd, namespaces+"kube-system", "")
	put(t, etcd, pods+"kube-system/dns", "0")
	configure(t, etcd, "0", "", "t05")
	begin := configure(t, etcd, "1", "t05", "")

	logs := map[string]chan []*clientv3.Event{}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(t.Context()))
	defer cancel()
	for _, name := range []string{"0", "1"} {
		own := plainetcd.Dial(t, etcd.Endpoints()...)
		c := group(t, etcd, name).New(ofPods(), own.KV, behind(own.Watcher), nil)
		logs[name] = follow(ctx, t, c.Watcher, begin+1)
	}
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() { stopped <- write(etcd, tenants, stop) }()
	random := rand.New(rand.NewPCG(1, 2))
	for range moves {
		bound := tenants[random.IntN(len(tenants))]
		// Two writes, so there is a gap or an overlap in between, where the greater
		// start counts.
		configure(t, etcd, "1", bound, "")
		configure(t, etcd, "0", "", bound)
		put(t, etcd, pods+"kube-system/dns", bound)
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	last := put(t, etcd, pods+"kube-system/end", "")
	truth := history(t, etcd, begin+1, last)
	for name, log := range logs {
		check(t, name, truth, <-log)
	}
}

// follow collects what a watch brings up to the object that is put at the end.
func follow(ctx context.Context, t *testing.T, w clientv3.Watcher, from int64) chan []*clientv3.Event {
	log := make(chan []*clientv3.Event, 1)
	ch := w.Watch(ctx, pods, clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithPrevKV())
	go func() {
		var all []*clientv3.Event
		defer func() { log <- all }()
		for r := range ch {
			if err := r.Err(); err != nil {
				t.Errorf("the watch ended: %v", err)
				return
			}
			all = append(all, r.Events...)
			if n := len(all); n > 0 && string(all[n-1].Kv.Key) == pods+"kube-system/end" {
				return
			}
		}
	}()
	return log
}

// write changes, deletes and makes pods of tenants until it is stopped.
func write(etcd *clientv3.Client, tenants []string, stop chan struct{}) error {
	random := rand.New(rand.NewPCG(3, 4))
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		key := fmt.Sprintf("%s%s/default/p%d", pods, tenants[random.IntN(len(tenants))], random.IntN(30))
		var err error
		if random.IntN(5) == 0 {
			_, err = etcd.Delete(context.Background(), key)
		} else {
			_, err = etcd.Put(context.Background(), key, strconv.Itoa(i))
		}
		if err != nil {
			return err
		}
	}
}

// history is everything that happened, as etcd itself says.
func history(t *testing.T, etcd *clientv3.Client, from, last int64) []*clientv3.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var all []*clientv3.Event
	responses := etcd.Watch(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithPrevKV())
	for r := range responses {
		if err := r.Err(); err != nil {
			t.Fatal(err)
		}
		all = append(all, r.Events...)
		if n := len(all); n > 0 && all[n-1].Kv.ModRevision >= last {
			return all
		}
	}
	t.Fatal("etcd does not say what happened")
	return nil
}

// check goes through what happened and expects of a group what it had to see.
func check(t *testing.T, name string, truth, got []*clientv3.Event) {
	t.Helper()
	ends := map[string]string{"0": "t05", "1": "t05"}
	table := func() *ownership.Table {
		return ownership.NewTable([]ownership.Config{
			{Name: "of-0", Created: 1, Group: "0", Span: ownership.Span{Hi: ends["0"]}},
			{Name: "of-1", Created: 2, Group: "1", Span: ownership.Span{Lo: ends["1"], Open: true}},
		})
	}
	current := table()
	// There are all pods in the beginning, with the value 0.
	values := initial()
	var want []string
	moved := 0
	for _, e := range truth {
		key := string(e.Kv.Key)
		if group, ok := strings.CutPrefix(key, configs+"of-"); ok {
			before := current
			ends[group] = bound(t, e.Kv.Value)
			current = table()
			// What moves comes in any order, so the keys are put in one.
			changed := movedKeys(before, current, name, values, e.Kv.ModRevision)
			moved += len(changed)
			want = append(want, changed...)
			continue
		}
		rest := strings.TrimPrefix(key, pods)
		if e.Type == clientv3.EventTypeDelete {
			delete(values, rest)
		} else {
			values[rest] = string(e.Kv.Value)
		}
		if !current.Foreign(name, space.Namespaced, rest) {
			want = append(want, short(e))
		}
	}
	saw := make([]string, len(got))
	for i, e := range got {
		saw[i] = short(e)
	}
	for i := range max(len(want), len(saw)) {
		if i >= len(want) || i >= len(saw) || want[i] != saw[i] {
			t.Fatalf("group %s: event %d of %d is %q, want %q of %d", name, i, len(saw), at(saw, i), at(want, i),
				len(want))
		}
	}
	t.Logf("group %s: %d events, %d of them of moves", name, len(saw), moved)
	if moved == 0 {
		t.Errorf("group %s: nothing moved", name)
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "nothing"
}

// initial are the pods before the moves.
func initial() map[string]string {
	values := map[string]string{"kube-system/dns": "0"}
	for i := range 12 {
		tenant := fmt.Sprintf("t%02d", i)
		if i%3 == 2 {
			tenant = fmt.Sprintf("t%02d-x", i-1)
		}
		for pod := range 30 {
			values[fmt.Sprintf("%s/default/p%d", tenant, pod)] = "0"
		}
	}
	return values
}

// bound is the one bound of a configuration.
func bound(t *testing.T, value []byte) string {
	t.Helper()
	c := &partitionapi.DataPartitionConfig{}
	if err := json.Unmarshal(value, c); err != nil {
		t.Fatal(err)
	}
	return c.RangeStart + c.RangeEnd
}

// movedKeys are the events of a move, in the order of keys, departures first.
func movedKeys(before, after *ownership.Table, group string, values map[string]string, rev int64) []string {
	var gone, come []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		was, is := before.Foreign(group, space.Namespaced, key), after.Foreign(group, space.Namespaced, key)
		switch {
		case !was && is:
			gone = append(gone, fmt.Sprintf("-%s@%d", key, rev))
		case was && !is:
			come = append(come, fmt.Sprintf("+%s=%s@%d", key, values[key], rev))
		}
	}
	return append(gone, come...)
}

// TestQuietMoves: moves are seen while nothing else happens, and nobody asks how far the
// watch is.
func TestQuietMoves(t *testing.T) {
	etcd := plainetcd.Run(t)
	for _, tenant := range []string{"alpha", "charlie", "zulu"} {
		put(t, etcd, pods+tenant+"/default/web", "0")
	}
	configure(t, etcd, "0", "", "m")
	begin := configure(t, etcd, "1", "m", "")
	c := client(t, etcd, group(t, etcd, "1"), ofPods())
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(t.Context()))
	defer cancel()
	ch := c.Watcher.Watch(ctx, pods, clientv3.WithPrefix(), clientv3.WithRev(begin+1), clientv3.WithPrevKV())
	expect := func(what string, n int) {
		t.Helper()
		for timeout := time.After(deadline / 4); n > 0; {
			select {
			case r, ok := <-ch:
				if err := r.Err(); err != nil || !ok {
					t.Fatalf("%s: the watch ended: %v", what, err)
				}
				n -= len(r.Events)
			case <-timeout:
				t.Fatalf("%s: %d events do not come", what, n)
			}
		}
	}
	for i := range 12 {
		configure(t, etcd, "0", "", "") // it grows, and the other one counts
		configure(t, etcd, "1", "a", "a\x00")
		expect(fmt.Sprintf("move %d, out", i), 1)
		configure(t, etcd, "1", "c", "")
		expect(fmt.Sprintf("move %d, in", i), 2)
		configure(t, etcd, "0", "", "m")
		configure(t, etcd, "1", "m", "")
		expect(fmt.Sprintf("move %d, half of it out", i), 1)
	}
}

// TestProgressOfMoves: a source tells which change its watches have met, deletions of
// configurations among them.
func TestProgressOfMoves(t *testing.T) {
	etcd := plainetcd.Run(t)
	configure(t, etcd, "0", "", "m")
	begin := configure(t, etcd, "1", "m", "")
	put(t, etcd, pods+"golf/default/p", "0")
	source := group(t, etcd, "1")
	w := watch(t, client(t, etcd, source, ofPods()), pods, put(t, etcd, pods+"zulu/default/p", "0"))
	expect := func(what string, at, revision int64, moves int, owner string) {
		t.Helper()
		w.until(at)
		got := source.Progress()
		if o, _ := got.Table.Owner("golf"); got.Revision != revision || got.Moves != moves || o != owner {
			t.Errorf("%s: %+v, owner %q, want revision %d, %d moves, owner %q", what, got, o, revision, moves, owner)
		}
	}
	expect("at first", begin+2, begin, 0, "0")
	at := configure(t, etcd, "1", "g", "")
	expect("a move", at, at, 1, "1")
	at = configure(t, etcd, "0", "", "g")
	expect("a change of another group", at, at, 1, "1")
	at = remove(t, etcd, configs+"of-0")
	expect("a deletion", at, at, 1, "1")
}
