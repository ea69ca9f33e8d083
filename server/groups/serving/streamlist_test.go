package serving

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

// listStream lists a stream, at a revision unless it is "". It returns which streams there are.
func listStream(
	ctx context.Context, s storage.Interface, group, exact string,
) (items []string, rev string, streams []string, err error) {
	opts := everything()
	if opts.ResourceVersion = exact; exact != "" && exact != "0" {
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	}
	ctx = partitionapi.WithStream(ctx,
		partitionapi.Stream{Group: group, Listed: func(all []string) { streams = all }})
	var l corev1.ConfigMapList
	if err := s.GetList(ctx, prefix, opts, &l); err != nil {
		return nil, "", nil, err
	}
	for _, c := range l.Items {
		items = append(items, c.Namespace+"/"+c.Name+"@"+c.ResourceVersion)
	}
	return items, l.ResourceVersion, streams, nil
}

// mustListStream is listStream, again while the cache is filled.
func mustListStream(
	t *testing.T, s storage.Interface, group, exact string,
) (items []string, rev string, streams []string) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(time.Millisecond) { // as a client does
		items, rev, streams, err := listStream(t.Context(), s, group, exact)
		if err == nil {
			return items, rev, streams
		}
		if !apierrors.IsTooManyRequests(err) || time.Since(start) > deadline {
			t.Fatal(err)
		}
	}
}

// TestStreamsAreListed: each stream is listed by each server, now and as it was, with what
// streams there are.
func TestStreamsAreListed(t *testing.T) {
	etcd := runEtcd(t)
	if _, err := etcd.Put(t.Context(), namespaces+"kube-system", ""); err != nil {
		t.Fatal(err)
	}
	configure(t, etcd, "0", "", "m")
	configure(t, etcd, "1", "m", "t")
	configure(t, etcd, "2", "x", "x") // nothing
	servers := map[string]storage.Interface{"0": server(t, etcd, "0"), "1": server(t, etcd, "1"),
		"all": server(t, etcd, "all")}
	create(t, servers["0"], "a", "of-0", "")
	create(t, servers["0"], "n", "of-1", "")
	create(t, servers["0"], "z", "nobodys", "") // a gap
	before := create(t, servers["0"], space.System, "systems", "").ResourceVersion
	create(t, servers["0"], "n", "later", "")
	moved := itoa(configure(t, etcd, "1", "x", ""))
	for name, s := range servers {
		for rev, want := range map[string]map[string][]string{
			before: {"0": {"of-0"}, "1": {"of-1"}, partitionapi.Rest: {"nobodys", "systems"}, "2": nil, "9": nil},
			moved:  {"0": {"of-0"}, "1": {"nobodys"}, partitionapi.Rest: {"later", "of-1", "systems"}, "2": nil},
			"":     {"0": {"of-0"}, "1": {"nobodys"}, partitionapi.Rest: {"later", "of-1", "systems"}, "2": nil},
		} {
			for group, want := range want {
				items, at, streams := mustListStream(t, s, group, rev)
				if rev != "" && at != rev || number(at) < number(before) {
					t.Errorf("the list of %s at %q has the revision %s", group, rev, at)
				}
				equal(t, "streams", streams, "0", "1", partitionapi.Rest)
				equal(t, fmt.Sprintf("stream %s of server %s at %q", group, name, rev), namesIn(items), want...)
			}
		}
	}
	opts := everything()
	opts.Predicate.Continue = "x"
	ctx := partitionapi.WithStream(t.Context(), partitionapi.Stream{Group: "0", Listed: func([]string) {}})
	if err := servers["0"].GetList(ctx, prefix, opts, &corev1.ConfigMapList{}); !apierrors.IsBadRequest(err) {
		t.Errorf("a page of a stream: %v", err)
	}
}

func namesIn(items []string) []string {
	var names []string
	for _, item := range items {
		name, _, _ := strings.Cut(item[strings.LastIndex(item, "/")+1:], "@")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestListsOfStreamsUnderMoves: lists of all streams at one revision, of the servers of their
// groups, are what the datastore had then, while boundaries move, into gaps and back.
func TestListsOfStreamsUnderMoves(t *testing.T) {
	etcd := runEtcd(t)
	configure(t, etcd, "0", "", "t3")
	configure(t, etcd, "1", "t3", "")
	servers := map[string]storage.Interface{"0": server(t, etcd, "0"), "1": server(t, etcd, "1")}
	var tenants []string
	for i := range 6 {
		tenants = append(tenants, fmt.Sprint("t", i))
		for n := range 20 {
			create(t, servers["0"], tenants[i], fmt.Sprint("c", n), "0")
		}
	}
	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() { write(t, servers, tenants, stop) })
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 40 {
		bound := tenants[random.IntN(len(tenants))]
		var moving sync.WaitGroup
		moving.Go(func() { // while it is listed
			configure(t, etcd, "1", bound, "")
			configure(t, etcd, "0", "", bound)
		})
		begin, err := etcd.Get(t.Context(), "nothing")
		if err != nil {
			t.Fatal(err)
		}
		first, rev, streams := mustListStream(t, servers[fmt.Sprint(i%2)], partitionapi.Rest, []string{"", "0"}[i/2%2])
		if i/2%2 == 0 && number(rev) < begin.Header.Revision {
			t.Errorf("a list at %s was asked for at %d", rev, begin.Header.Revision)
		}
		all := first
		for _, group := range streams {
			if group == partitionapi.Rest {
				continue
			}
			items, at, also := mustListStream(t, servers[group], group, rev)
			if at != rev || !slices.Equal(streams, also) {
				t.Errorf("the list of %s at %s is at %s, with the streams %q and %q", group, rev, at, streams, also)
			}
			all = append(all, items...)
		}
		slices.Sort(all)
		if want := storedAt(t, etcd, number(rev)); !slices.Equal(all, want) {
			t.Errorf("%d objects at %s, want %d:\n%q\n%q", len(all), rev, len(want), all, want)
		}
		moving.Wait()
	}
	close(stop)
	busy.Wait()
}

// storedAt is what the datastore had at a revision.
func storedAt(t *testing.T, etcd *clientv3.Client, rev int64) []string {
	t.Helper()
	got, err := etcd.Get(t.Context(), root+prefix+"/", clientv3.WithPrefix(), clientv3.WithRev(rev))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, kv := range got.Kvs {
		all = append(all, fmt.Sprintf("%s@%d", strings.TrimPrefix(string(kv.Key), root+prefix+"/"), kv.ModRevision))
	}
	slices.Sort(all)
	return all
}

// counted counts what is read in the datastore of the resource.
type counted struct {
	clientv3.KV
	read *atomic.Int64
}

// Get implements clientv3.KV.
func (c counted) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if strings.HasPrefix(key, root+prefix+"/") {
		c.read.Add(1)
	}
	return c.KV.Get(ctx, key, opts...)
}

// TestListsOfStreamsAreCached: lists of streams read nothing in the datastore at the servers of
// their groups, and lists of everything do.
func TestListsOfStreamsAreCached(t *testing.T) {
	etcd := runEtcd(t)
	configure(t, etcd, "0", "", "m")
	configure(t, etcd, "1", "m", "")
	var read atomic.Int64
	count := func(kv clientv3.KV) clientv3.KV { return counted{kv, &read} }
	servers := map[string]storage.Interface{}
	for _, group := range []string{"0", "1"} {
		servers[group] = serverCounted(t, etcd, group, count)
	}
	for _, tenant := range []string{"a", "z", space.System} {
		create(t, servers["0"], tenant, "of-"+tenant, "")
	}
	lists := func(from string) int64 {
		t.Helper()
		before := read.Load()
		_, rev, streams := mustListStream(t, servers["0"], partitionapi.Rest, from)
		for _, group := range streams[:len(streams)-1] {
			mustListStream(t, servers[group], group, rev)
		}
		return read.Load() - before
	}
	lists("") // the caches are filled
	for what, from := range map[string]string{"what there is": "", "what is cached": "0"} {
		if n := lists(from); n > 0 {
			t.Errorf("%s: %d reads of the datastore", what, n)
		}
	}
	before := read.Load()
	mustList(t, t.Context(), servers["0"], prefix)
	if read.Load() == before {
		t.Error("a list of everything is not counted")
	}
	before = read.Load()
	if mustListStream(t, servers["0"], "1", ""); read.Load() == before {
		t.Error("the stream of a group without a server does not come from the datastore")
	}
}

// TestStreamsWaitForTheCache: streams of a server whose cache is filled are not read in the
// datastore meanwhile. One that is older than the cache begins there, and ends when it is
// as far as the cache.
func TestStreamsWaitForTheCache(t *testing.T) {
	etcd := runEtcd(t)
	configure(t, etcd, "0", "", "")
	h := newHeld("0")
	g := &grouped{held: h, prefix: prefix, Interface: server(t, etcd, "0"),
		stream: func(string) (storage.Interface, error) { return nil, errors.New("the datastore is read") }}
	_, _, _, err := listStream(t.Context(), g, "0", "")
	if !apierrors.IsTooManyRequests(err) {
		t.Errorf("a list: %v", err)
	}
	ctx := partitionapi.WithStream(t.Context(), partitionapi.Stream{Group: "0", Split: func() {}})
	opts := everything()
	opts.ResourceVersion = "1"
	if _, err := g.Watch(ctx, prefix, opts); !apierrors.IsTooManyRequests(err) {
		t.Errorf("a watch: %v", err)
	}

	other := server(t, etcd, "1") // of a group without a range
	old := create(t, other, "a", "one", "").ResourceVersion
	for i := range 10 {
		create(t, other, "a", fmt.Sprint("c", i), "")
	}
	s := server(t, etcd, "0")
	w := openStream(t, s, "0", old)
	defer w.Stop()
	reached, n := number(old), 0
	for e := range w.ResultChan() {
		o := uncovered(e.Object).(*corev1.ConfigMap)
		reached, n = number(o.ResourceVersion), n+1
	}
	if n != 10 {
		t.Errorf("it ends after %d events", n)
	}
	again := openStream(t, s, "0", itoa(reached))
	defer again.Stop()
	if _, ok := again.(*stream); !ok {
		t.Errorf("it goes on with a %T", again)
	}
}
