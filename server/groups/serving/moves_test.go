package serving

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/tests/sizes"
)

// sample is a list of a tenant as a server gave it.
type sample struct {
	group, tenant, rev string
	items              []string
}

// TestMovesBeneathClients moves a boundary while tenants are written, listed and watched
// through servers of both groups. Every list is what the datastore had at its revision,
// every watch has all events once and in order, and none ends. A4S_MOVES is how many
// moves there are.
func TestMovesBeneathClients(t *testing.T) {
	moves := sizes.Of(t, "A4S_MOVES", 30)
	etcd := runEtcd(t)
	configure(t, etcd, "0", "", "t3")
	configure(t, etcd, "1", "t3", "")
	servers := map[string]storage.Interface{"0": server(t, etcd, "0"), "1": server(t, etcd, "1")}
	var tenants []string
	var begin string
	for i := range 6 {
		tenants = append(tenants, fmt.Sprint("t", i))
		for n := range 20 {
			begin = create(t, servers["0"], tenants[i], fmt.Sprint("c", n), "0").ResourceVersion
		}
	}
	logs := map[string]chan []string{}
	for group, s := range servers {
		for _, tenant := range tenants {
			opts := everything()
			opts.ResourceVersion = begin
			w, err := s.Watch(of(t, tenant), prefix+"/"+tenant+"/", opts)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			logs[group+" "+tenant] = follow(w)
		}
	}

	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() { write(t, servers, tenants, stop) })
	var samples []sample
	busy.Go(func() { samples = read(t, servers, tenants, stop) })
	random := rand.New(rand.NewPCG(1, 2))
	for range moves {
		bound := tenants[random.IntN(len(tenants))]
		configure(t, etcd, "1", bound, "")
		configure(t, etcd, "0", "", bound)
		for _, s := range servers { // the caches have caught up then
			if _, _, err := list(of(t, tenants[0]), s, prefix+"/"+tenants[0]+"/"); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	busy.Wait()
	for _, tenant := range tenants {
		create(t, servers["1"], tenant, "end", "")
	}

	truth := history(t, etcd, begin)
	for name, log := range logs {
		_, tenant, _ := strings.Cut(name, " ")
		saw := <-log
		var want []string
		for _, e := range truth {
			if e.tenant == tenant {
				want = append(want, e.text)
			}
		}
		if !slices.Equal(saw, want) {
			t.Errorf("the watch of group %s saw %d events, want %d: %s", name, len(saw), len(want), differ(saw, want))
		}
	}
	checkSamples(t, samples, truth, begin, tenants)
	t.Logf("%d events, %d lists, %d moves", len(truth), len(samples), moves)
}

// TestPartWatchesBeginInMidMove: a watch of the part that begins while tenants move has
// what it should once they have moved.
func TestPartWatchesBeginInMidMove(t *testing.T) {
	etcd := runEtcd(t)
	configure(t, etcd, "0", "", "")
	s := server(t, etcd, "0")
	for i := range 400 {
		create(t, s, fmt.Sprint("t", i%4), fmt.Sprint("c", i), "0")
	}
	opts := everything()
	opts.SendInitialEvents = new(true)
	opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	opts.Predicate.AllowWatchBookmarks = true
	moved := make(chan struct{})
	var states []*state
	var opening sync.WaitGroup
	opening.Go(func() {
		for !closed(moved) {
			w, err := s.Watch(partitionapi.WithPart(t.Context()), prefix, opts)
			if err != nil {
				t.Errorf("watching: %v", err)
				return
			}
			states = append(states, remember(w))
			time.Sleep(2 * time.Millisecond) // to begin at any moment of a move
		}
	})
	for range 6 {
		for _, bound := range []string{"t2", "t1", ""} {
			configure(t, etcd, "0", "", bound)
			if _, _, err := list(partitionapi.WithPart(t.Context()), s, prefix); err != nil {
				t.Fatal(err)
			}
		}
	}
	configure(t, etcd, "0", "", "t3")
	close(moved)
	opening.Wait()
	items, _, err := list(partitionapi.WithPart(t.Context()), s, prefix)
	if err != nil {
		t.Fatal(err)
	}
	if len(items) != 300 || len(states) < 10 {
		t.Fatalf("%d objects and %d watches", len(items), len(states))
	}
	right := 0
	for i, one := range states {
		for start := time.Now(); ; time.Sleep(time.Millisecond) {
			objects, ended := one.size()
			if objects == len(items) && !ended {
				right++
				break
			}
			if ended { // the cache ends a watch that is too slow, and its client begins another one
				break
			}
			if time.Since(start) > deadline/6 {
				t.Fatalf("watch %d of %d has %d objects, want %d", i, len(states), objects, len(items))
			}
		}
	}
	if t.Logf("%d of %d watches were fast enough", right, len(states)); right == 0 {
		t.Error("none was")
	}
}

// state is what a watch has shown.
type state struct {
	mu    sync.Mutex
	names map[string]bool
	ended bool
}

func (s *state) size() (objects int, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.names), s.ended
}

func remember(w watch.Interface) *state {
	s := &state{names: map[string]bool{}}
	go func() {
		for e := range w.ResultChan() {
			o, err := meta.Accessor(e.Object)
			if err != nil || e.Type == watch.Bookmark {
				continue
			}
			s.mu.Lock()
			if name := o.GetNamespace() + "/" + o.GetName(); e.Type == watch.Deleted {
				delete(s.names, name)
			} else {
				s.names[name] = true
			}
			s.mu.Unlock()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = true
	}()
	return s
}

// follow collects what a watch brings up to the last object.
func follow(w watch.Interface) chan []string {
	log := make(chan []string, 1)
	go func() {
		var all []string
		defer func() { log <- all }()
		for e := range w.ResultChan() {
			obj := e.Object
			if shared, ok := obj.(runtime.CacheableObject); ok {
				obj = shared.GetObject()
			}
			c, ok := obj.(*corev1.ConfigMap)
			if !ok {
				all = append(all, fmt.Sprintf("%s %+v", e.Type, obj))
				return
			}
			all = append(all, fmt.Sprintf("%s %s@%s", e.Type, c.Name, c.ResourceVersion))
			if c.Name == "end" {
				return
			}
		}
		all = append(all, "it ended")
	}()
	return log
}

// write changes, deletes and makes objects through both servers until it is stopped.
func write(t *testing.T, servers map[string]storage.Interface, tenants []string, stop chan struct{}) {
	random := rand.New(rand.NewPCG(3, 4))
	for i := 0; !closed(stop); i++ {
		s := servers[strconv.Itoa(random.IntN(2))]
		tenant := tenants[random.IntN(len(tenants))]
		c := configMap(tenant, fmt.Sprint("c", random.IntN(20)), strconv.Itoa(i))
		key, _ := keyOf(c)
		ctx := context.WithoutCancel(of(t, tenant))
		var err error
		if random.IntN(5) == 0 {
			err = s.Delete(ctx, key, &corev1.ConfigMap{}, nil, storage.ValidateAllObjectFunc, nil,
				storage.DeleteOptions{})
			if storage.IsNotFound(err) {
				err = nil
			}
		} else {
			err = s.GuaranteedUpdate(ctx, key, &corev1.ConfigMap{}, true, nil,
				storage.SimpleUpdate(func(was runtime.Object) (runtime.Object, error) {
					out := was.(*corev1.ConfigMap)
					out.Namespace, out.Name, out.Data = c.Namespace, c.Name, c.Data
					return out, nil
				}), nil)
		}
		if err != nil {
			t.Errorf("writing %s: %v", key, err)
			return
		}
	}
}

// read lists tenants through both servers until it is stopped.
func read(t *testing.T, servers map[string]storage.Interface, tenants []string, stop chan struct{}) []sample {
	var all []sample
	random := rand.New(rand.NewPCG(5, 6))
	for !closed(stop) {
		group, tenant := strconv.Itoa(random.IntN(2)), tenants[random.IntN(len(tenants))]
		items, rev, err := list(context.WithoutCancel(of(t, tenant)), servers[group], prefix+"/"+tenant+"/")
		if err != nil {
			t.Errorf("listing %s: %v", tenant, err)
			return all
		}
		all = append(all, sample{group, tenant, rev, items})
	}
	return all
}

// happened is an event of the datastore.
type happened struct {
	tenant, name, text string
	rev                int64
	deleted            bool
}

// history is what happened to config maps, as etcd itself says.
func history(t *testing.T, etcd *clientv3.Client, from string) []happened {
	t.Helper()
	begin, err := strconv.ParseInt(from, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	now, err := etcd.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var all []happened
	for r := range etcd.Watch(ctx, root+"/", clientv3.WithPrefix(), clientv3.WithRev(begin+1)) {
		for _, e := range r.Events {
			parts := strings.Split(strings.TrimPrefix(string(e.Kv.Key), root+prefix+"/"), "/")
			if len(parts) == 3 {
				h := happened{tenant: parts[0], name: parts[2], rev: e.Kv.ModRevision}
				what := watch.Modified
				switch {
				case e.Type == clientv3.EventTypeDelete:
					what, h.deleted = watch.Deleted, true
				case e.IsCreate():
					what = watch.Added
				}
				h.text = fmt.Sprintf("%s %s@%d", what, h.name, h.rev)
				all = append(all, h)
			}
			if e.Kv.ModRevision == now.Header.Revision {
				return all
			}
		}
	}
	t.Fatal("etcd does not say what happened")
	return nil
}

// checkSamples compares every list with what the datastore had at its revision.
func checkSamples(t *testing.T, samples []sample, truth []happened, begin string, tenants []string) {
	t.Helper()
	first, _ := strconv.ParseInt(begin, 10, 64)
	state := map[string]map[string]int64{}
	for i, tenant := range tenants {
		state[tenant] = map[string]int64{}
		for n := range 20 {
			state[tenant][fmt.Sprint("c", n)] = first - int64(len(tenants)*20-1-(i*20+n))
		}
	}
	slices.SortStableFunc(samples, func(a, b sample) int { return int(number(a.rev) - number(b.rev)) })
	wrong := 0
	for _, s := range samples {
		for len(truth) > 0 && truth[0].rev <= number(s.rev) {
			h := truth[0]
			truth = truth[1:]
			state[h.tenant][h.name] = h.rev
			if h.deleted {
				delete(state[h.tenant], h.name)
			}
		}
		var want []string
		for name, rev := range state[s.tenant] {
			want = append(want, fmt.Sprintf("%s/default/%s@%d", s.tenant, name, rev))
		}
		slices.Sort(want)
		slices.Sort(s.items)
		if !slices.Equal(s.items, want) {
			if wrong++; wrong < 5 {
				t.Errorf("a list of %s by group %s at %s: %s", s.tenant, s.group, s.rev, differ(s.items, want))
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d lists are wrong", wrong, len(samples))
	}
}

func number(rev string) int64 {
	n, _ := strconv.ParseInt(rev, 10, 64)
	return n
}

// differ says where two lists differ first.
func differ(got, want []string) string {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			return fmt.Sprintf("%d is %q, want %q", i, got[min(i, len(got)):min(i+2, len(got))],
				want[min(i, len(want)):min(i+2, len(want))])
		}
	}
	return "equal"
}
