package serving

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/storage"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

// openStream opens a stream of a server from a revision on.
func openStream(t *testing.T, s storage.Interface, group, rev string) watch.Interface {
	t.Helper()
	opts := everything()
	opts.ResourceVersion, opts.Predicate.AllowWatchBookmarks = rev, true
	split := false
	ctx := partitionapi.WithStream(audit.WithAuditContext(t.Context()),
		partitionapi.Stream{Group: group, Split: func() { split = true }})
	logged := audit.AuditContextFrom(ctx)
	if err := logged.Init(audit.RequestAuditConfig{Level: auditapi.LevelMetadata}, nil); err != nil {
		t.Fatal(err)
	}
	w, err := s.Watch(ctx, prefix, opts)
	for start := time.Now(); apierrors.IsTooManyRequests(err) && time.Since(start) < deadline; {
		time.Sleep(time.Millisecond) // as its client does
		w, err = s.Watch(ctx, prefix, opts)
	}
	if err != nil {
		t.Fatalf("the stream of %s from %s: %v", group, rev, err)
	}
	if !split {
		t.Error("it does not say that it is a stream")
	}
	if said, _ := logged.GetEventAnnotation(streamAnnotation); said != group {
		t.Errorf("the audit log has the stream %q, want %q", said, group)
	}
	return w
}

// streamed are the events of a stream up to a revision. A stream that ends is opened again
// where it was.
func streamed(t *testing.T, s storage.Interface, group, rev string, upTo func() int64) []string {
	var all []string
	for reached := number(rev); ; {
		w := openStream(t, s, group, itoa(reached))
		for e := range w.ResultChan() {
			switch o := uncovered(e.Object).(type) {
			case *corev1.ConfigMap:
				reached = max(reached, number(o.ResourceVersion))
				if e.Type != watch.Bookmark && o.Name != "end" {
					all = append(all, fmt.Sprintf("%s %s@%s", e.Type, o.Name, o.ResourceVersion))
				}
			default:
				t.Errorf("the stream of %s: %s %+v", group, e.Type, e.Object)
				return all
			}
			if reached > upTo() {
				w.Stop()
				return all
			}
		}
	}
}

// TestStreamsUnderMoves: the streams of the groups and the rest have each event once, and
// each stream has them in order, from whichever server each is read and whatever moves,
// into gaps and back, too. They are read while all that happens.
func TestStreamsUnderMoves(t *testing.T) {
	etcd := runEtcd(t)
	if _, err := etcd.Put(t.Context(), namespaces+"kube-system", ""); err != nil {
		t.Fatal(err)
	}
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
	groups, ended, last := []string{"0", "1", partitionapi.Rest}, make(chan struct{}), int64(0)
	upTo := func() int64 {
		if closed(ended) {
			return last
		}
		return math.MaxInt64
	}
	var servings [][3]chan []string
	for _, from := range [][3]string{{"0", "1", "0"}, {"1", "0", "1"}} { // who gives which
		var reads [3]chan []string
		for i, group := range groups {
			reads[i] = make(chan []string, 1)
			go func() { reads[i] <- streamed(t, servers[from[i]], group, begin, upTo) }()
		}
		servings = append(servings, reads)
	}
	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() { write(t, servers, tenants, stop) })
	random := rand.New(rand.NewPCG(1, 2))
	move := func() {
		bound := tenants[random.IntN(len(tenants))]
		configure(t, etcd, "1", bound, "")
		configure(t, etcd, "0", "", bound)
		for _, s := range servers {
			if _, _, err := list(of(t, tenants[0]), s, prefix+"/"+tenants[0]+"/"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 20 {
		move()
	}
	close(stop)
	busy.Wait()
	truth := history(t, etcd, begin)
	last = truth[len(truth)-1].rev
	want := make([]string, 0, len(truth))
	for _, h := range truth {
		want = append(want, h.text)
	}
	close(ended)
	// Each stream needs an event behind the last one, to show that it is through.
	configure(t, etcd, "0", "", "t3")
	configure(t, etcd, "1", "t3", "")
	create(t, servers["0"], space.System, "end", "")
	for _, tenant := range tenants {
		create(t, servers["0"], tenant, "end", "")
	}
	for _, from := range servings {
		var all []string
		for i, group := range groups {
			got := <-from[i]
			if !slices.IsSortedFunc(got, byRevision) {
				t.Errorf("the stream of %s is not in order", group)
			}
			all = append(all, got...)
		}
		slices.SortStableFunc(all, byRevision)
		if !slices.Equal(all, want) {
			t.Errorf("%d events, want %d: %s", len(all), len(want), differ(all, want))
		}
	}
	t.Logf("%d events", len(truth))
}

func byRevision(a, b string) int {
	_, x, _ := strings.Cut(a, "@")
	_, y, _ := strings.Cut(b, "@")
	return int(number(x) - number(y))
}

// TestStreamsOfOthersTenants: what the stream of the rest has follows the configurations of
// other groups, by which nothing comes to a server or leaves it.
func TestStreamsOfOthersTenants(t *testing.T) {
	etcd := runEtcd(t)
	if _, err := etcd.Put(t.Context(), namespaces+"kube-system", ""); err != nil {
		t.Fatal(err)
	}
	configure(t, etcd, "0", "", "m")
	configure(t, etcd, "1", "m", "")
	s := server(t, etcd, "0")
	change := func(what string, do func(), fromCache bool, want ...string) {
		t.Helper()
		do()
		if _, _, err := list(of(t, "a"), s, prefix+"/a/"); err != nil { // the cache has caught up then
			t.Fatal(err)
		}
		_, rev, _ := mustListStream(t, s, partitionapi.Rest, "")
		w := openStream(t, s, partitionapi.Rest, rev)
		defer w.Stop()
		if _, ok := w.(*stream); ok != fromCache {
			t.Errorf("%s: the stream is a %T", what, w)
		}
		create(t, s, "n", "of-1, "+what, "")
		create(t, s, space.System, "of the system, "+what, "")
		for _, of := range want {
			expect(t, w, "ADDED "+of+", "+what)
		}
	}
	change("with a configuration", func() {}, true, "of the system")
	change("without", func() {
		if _, err := etcd.Delete(t.Context(), configs+"of-1"); err != nil {
			t.Fatal(err)
		}
	}, false, "of-1", "of the system")
	change("with another", func() { configure(t, etcd, "1", "m", "") }, true, "of the system")
}

// TestStreamsBegin: each stream begins at the revision of a list and goes on, from the server
// of the group and from another one, and none begins with what there is.
func TestStreamsBegin(t *testing.T) {
	etcd := runEtcd(t)
	if _, err := etcd.Put(t.Context(), namespaces+"kube-system", ""); err != nil {
		t.Fatal(err)
	}
	configure(t, etcd, "0", "", "m")
	configure(t, etcd, "1", "m", "t")
	servers := map[string]storage.Interface{"0": server(t, etcd, "0"), "1": server(t, etcd, "1")}
	opts := everything()
	opts.SendInitialEvents = new(true)
	opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	opts.Predicate.AllowWatchBookmarks = true
	for name, s := range servers {
		for group, tenants := range map[string][]string{
			"0": {"a"}, "1": {"n"}, partitionapi.Rest: {"z", space.System}, "9": nil, // z is in a gap
		} {
			ctx := partitionapi.WithStream(t.Context(), partitionapi.Stream{Group: group, Split: func() {}})
			if _, err := s.Watch(ctx, prefix, opts); !apierrors.IsInvalid(err) {
				t.Errorf("stream %s of server %s begins with what there is: %v", group, name, err)
			}
			_, rev, _ := mustListStream(t, s, group, "")
			w := openStream(t, s, group, rev)
			for _, tenant := range []string{"a", "n", "z", space.System} {
				made := create(t, s, tenant, name+group+tenant, "")
				key, _ := keyOf(made)
				if err := s.Delete(t.Context(), key, made, nil, storage.ValidateAllObjectFunc, nil,
					storage.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			for _, tenant := range tenants {
				expect(t, w, "ADDED "+name+group+tenant)
				expect(t, w, "DELETED "+name+group+tenant)
			}
			w.Stop()
		}
	}
}

// TestWholeCacheIsUpstreams: a server whose group holds all tenants lists and watches
// everything in its cache, and the watch goes on when it ceases to.
func TestWholeCacheIsUpstreams(t *testing.T) {
	etcd := runEtcd(t)
	s := server(t, etcd, "0")
	create(t, s, "a", "one", "")
	opts := everything()
	var w watch.Interface
	for start := time.Now(); ; w.Stop() { // the cache may list once more when it begins
		_, rev, err := list(t.Context(), s, prefix)
		if err != nil {
			t.Fatal(err)
		}
		opts.ResourceVersion = rev
		if w, err = s.Watch(t.Context(), prefix, opts); err != nil {
			t.Fatal(err)
		}
		if _, ok := w.(*continued); ok {
			break
		}
		if time.Since(start) > deadline {
			t.Fatalf("the watch of everything is a %T", w)
		}
	}
	defer w.Stop()
	create(t, s, "z", "two", "")
	expect(t, w, "ADDED two")
	configure(t, etcd, "0", "", "m")
	create(t, s, "z", "three", "")
	expect(t, w, "ADDED three")
	create(t, s, "a", "four", "")
	expect(t, w, "ADDED four")
	equal(t, "everything", mustList(t, t.Context(), s, prefix), "a/default/four", "a/default/one", "z/default/three",
		"z/default/two")
	configure(t, etcd, "0", "", "")
	again, err := s.Watch(t.Context(), prefix, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Stop()
	for _, want := range []string{"two", "three", "four"} {
		expect(t, again, "ADDED "+want)
	}
}
