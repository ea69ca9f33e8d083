package ranged_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/tests/plainetcd"
)

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// fill stores objects of the system and of tenants, some of which are called as
// namespaces of the system.
func fill(t testing.TB, etcd *clientv3.Client) {
	t.Helper()
	for _, ns := range []string{"default", "kube-system", "zoo"} {
		put(t, etcd, namespaces+ns, "")
		put(t, etcd, pods+ns+"/web", "system")
	}
	for _, tenant := range []string{"a", "a-b", "m", "zoo"} {
		put(t, etcd, namespaces+tenant+"/default", "")
		put(t, etcd, pods+tenant+"/default/web", tenant)
		put(t, etcd, volumes+tenant+"/disk", tenant)
	}
	put(t, etcd, volumes+"disk", "system")
}

func TestListsHaveTheRange(t *testing.T) {
	etcd := plainetcd.Run(t)
	fill(t, etcd)
	configure(t, etcd, "0", "", "m")
	configure(t, etcd, "1", "m", "")
	for name, want := range map[string]struct{ pods, volumes []string }{
		"0": {
			[]string{"a-b/default/web", "a/default/web", "default/web", "kube-system/web", "zoo/web"},
			[]string{"a-b/disk", "a/disk", "disk"},
		},
		"1": {
			[]string{"default/web", "kube-system/web", "m/default/web", "zoo/default/web", "zoo/web"},
			[]string{"disk", "m/disk", "zoo/disk"},
		},
		"2": { // it has no configuration
			[]string{"a-b/default/web", "a/default/web", "default/web", "kube-system/web", "m/default/web",
				"zoo/default/web", "zoo/web"},
			[]string{"a-b/disk", "a/disk", "disk", "m/disk", "zoo/disk"},
		},
	} {
		source := group(t, etcd, name)
		ofPods, ofVolumes := client(t, etcd, source, ofPods()), client(t, etcd, source, ofVolumes())
		for _, limit := range []int64{0, 1, 2, 3, 100} {
			equal(t, fmt.Sprintf("pods of group %s in pages of %d", name, limit), list(t, ofPods, pods, limit),
				want.pods)
			equal(t, fmt.Sprintf("volumes of group %s in pages of %d", name, limit),
				list(t, ofVolumes, volumes, limit), want.volumes)
		}
		count, err := ofPods.KV.Get(t.Context(), pods, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil || len(count.Kvs) > 0 || count.Count < int64(len(want.pods)) {
			t.Errorf("group %s counts %v, %v", name, count, err)
		}
		one, err := ofPods.KV.Get(t.Context(), pods+"m/default/web")
		if err != nil || len(one.Kvs) != 1 {
			t.Errorf("group %s reads a pod of another group: %v, %v", name, one, err)
		}
	}
}

// TestListsAsOfARevision: the ranges of a list are those of its revision.
func TestListsAsOfARevision(t *testing.T) {
	etcd := plainetcd.Run(t)
	fill(t, etcd)
	rev := configure(t, etcd, "0", "", "b")
	configure(t, etcd, "0", "b", "n")
	c := client(t, etcd, group(t, etcd, "0"), ofVolumes())
	equal(t, "now", list(t, c, volumes, 0), []string{"disk", "m/disk"})
	got, err := c.KV.Get(t.Context(), volumes, clientv3.WithPrefix(), clientv3.WithRev(rev))
	if err != nil || got.Header.Revision != rev || len(got.Kvs) != 3 {
		t.Errorf("before: %v, %v", got, err)
	}
}

// TestWatchChangesOver: a change of ranges is met in the order of revisions: what
// departs is deleted and what arrives is put in at its revision, and events follow.
func TestWatchChangesOver(t *testing.T) {
	etcd := plainetcd.Run(t)
	fill(t, etcd)
	configure(t, etcd, "0", "", "m")
	begin := configure(t, etcd, "1", "m", "")
	watches := map[string]*watched{}
	for _, name := range []string{"0", "1"} {
		watches[name] = watch(t, client(t, etcd, group(t, etcd, name), ofPods()), pods, begin+1)
	}
	r1 := put(t, etcd, pods+"a/default/web", "2")
	r2 := put(t, etcd, pods+"m/default/web", "2")
	r3 := put(t, etcd, pods+"default/web", "2")
	equal(t, "group 0", watches["0"].until(r3), []string{
		fmt.Sprintf("+a/default/web=2@%d", r1), fmt.Sprintf("+default/web=2@%d", r3),
	})
	equal(t, "group 1", watches["1"].until(r3), []string{
		fmt.Sprintf("+m/default/web=2@%d", r2), fmt.Sprintf("+default/web=2@%d", r3),
	})

	// The boundary moves in two steps: in between nobody owns m.
	at := configure(t, etcd, "1", "n", "")
	put(t, etcd, pods+"m/default/web", "3")
	at2 := configure(t, etcd, "0", "", "n")
	r4 := put(t, etcd, pods+"m/default/web", "4")
	equal(t, "the old owner", watches["1"].until(r4), []string{fmt.Sprintf("-m/default/web@%d", at)})
	equal(t, "the new owner", watches["0"].until(r4), []string{
		fmt.Sprintf("+m/default/web=3@%d", at2), fmt.Sprintf("+m/default/web=4@%d", r4),
	})

	// A tenant that is listed, and one that has the name of a namespace.
	at = configure(t, etcd, "0", "", "n", "zoo")
	r5 := put(t, etcd, pods+"zoo/default/web", "5")
	r6 := remove(t, etcd, pods+"zoo/web")
	equal(t, "who lists", watches["0"].until(r6), []string{
		fmt.Sprintf("+zoo/default/web=zoo@%d", at), fmt.Sprintf("+zoo/default/web=5@%d", r5),
		fmt.Sprintf("-zoo/web@%d", r6),
	})
	equal(t, "who had it in its range", watches["1"].until(r6), []string{
		fmt.Sprintf("-zoo/default/web@%d", at), fmt.Sprintf("-zoo/web@%d", r6),
	})

	// Without its configuration a group has everything.
	at = remove(t, etcd, configs+"of-1")
	equal(t, "without a configuration", watches["1"].until(at), []string{
		fmt.Sprintf("+a-b/default/web=a-b@%d", at), fmt.Sprintf("+a/default/web=2@%d", at),
		fmt.Sprintf("+m/default/web=4@%d", at), fmt.Sprintf("+zoo/default/web=5@%d", at),
	})
}

// TestOwnRevision: what was put in says its true revision, once.
func TestOwnRevision(t *testing.T) {
	etcd := plainetcd.Run(t)
	fill(t, etcd)
	configure(t, etcd, "0", "", "m")
	own := put(t, etcd, pods+"m/default/web", "2")
	c := client(t, etcd, group(t, etcd, "0"), ofPods())
	w := watch(t, c, pods, own+1)
	at := configure(t, etcd, "0", "", "n")
	equal(t, "events", w.until(at), []string{fmt.Sprintf("+m/default/web=2@%d", at)})
	if got, ok := c.OwnRevision(pods+"a/default/web", at); ok {
		t.Errorf("a pod that stayed has revision %d", got)
	}
	if got, ok := c.OwnRevision(pods+"m/default/web", at); !ok || got != own {
		t.Errorf("the pod has revision %d, %v, want %d", got, ok, own)
	}
	if _, ok := c.OwnRevision(pods+"m/default/web", at); ok {
		t.Error("it is said twice")
	}
}

// TestNewNamespace: the objects of a namespace that the system gets later are in the
// ranges of every group.
func TestNewNamespace(t *testing.T) {
	etcd := plainetcd.Run(t)
	fill(t, etcd)
	begin := configure(t, etcd, "0", "x", "y")
	c := client(t, etcd, group(t, etcd, "0"), ofPods())
	w := watch(t, c, pods, begin+1)
	put(t, etcd, namespaces+"late", "")
	put(t, etcd, namespaces+"m/late", "") // of a tenant
	r1 := put(t, etcd, pods+"late/web", "1")
	put(t, etcd, pods+"late/default/web", "of a tenant with this name")
	r2 := remove(t, etcd, pods+"late/web")
	equal(t, "events", w.until(r2), []string{fmt.Sprintf("+late/web=1@%d", r1), fmt.Sprintf("-late/web@%d", r2)})
	put(t, etcd, pods+"late/web", "2")
	equal(t, "a list", list(t, c, pods, 0), []string{"default/web", "kube-system/web", "late/web", "zoo/web"})
}

// TestManyRanges: with more ranges than watches are opened for, what comes is the same.
func TestManyRanges(t *testing.T) {
	etcd := plainetcd.Run(t)
	fill(t, etcd)
	var tenants []string
	for i := range 100 {
		tenants = append(tenants, fmt.Sprintf("t%d", i))
	}
	begin := configure(t, etcd, "0", "x", "x", tenants...)
	c := client(t, etcd, group(t, etcd, "0"), ofPods())
	w := watch(t, c, pods, begin+1)
	r1 := put(t, etcd, pods+"t7/default/web", "1")
	put(t, etcd, pods+"t100/default/web", "1")
	r2 := put(t, etcd, pods+"t8/default/web", "1")
	equal(t, "events", w.until(r2), []string{
		fmt.Sprintf("+t7/default/web=1@%d", r1), fmt.Sprintf("+t8/default/web=1@%d", r2),
	})
	at := configure(t, etcd, "0", "x", "x", tenants[8:]...)
	equal(t, "after the change", w.until(at), []string{fmt.Sprintf("-t7/default/web@%d", at)})
	equal(t, "a list", list(t, c, pods, 0), []string{"default/web", "kube-system/web", "t8/default/web", "zoo/web"})
}

// TestCompactedInMidChange: when the tenants cannot be read as of the change any more,
// the watch ends as a compacted one does, so that the cache lists again.
func TestCompactedInMidChange(t *testing.T) {
	etcd := plainetcd.Run(t)
	fill(t, etcd)
	begin := configure(t, etcd, "0", "", "m")
	source := group(t, etcd, "0")
	kv := &compacted{KV: source.Client.KV}
	source.Client.KV = kv
	w := watch(t, client(t, etcd, source, ofPods()), pods, begin+1)
	kv.at.Store(put(t, etcd, pods+"default/web", "2") + 1)
	at := configure(t, etcd, "0", "", "n")
	if at != kv.at.Load() {
		t.Fatalf("the change has revision %d, want %d", at, kv.at.Load())
	}
	w.until(at - 1)
	select {
	case r := <-w.ch:
		if err := r.Err(); !errors.Is(err, rpctypes.ErrCompacted) {
			t.Errorf("got %v, %+v", err, r)
		}
	case <-time.After(deadline):
		t.Error("nothing comes")
	}
}

// compacted has no history at a revision.
type compacted struct {
	clientv3.KV
	at atomic.Int64
}

func (c *compacted) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if op := clientv3.OpGet(key, opts...); op.Rev() == c.at.Load() && op.Limit() > 0 {
		return nil, rpctypes.ErrCompacted
	}
	return c.KV.Get(ctx, key, opts...)
}

// TestWatchEndsWithItsContext: nothing stays open.
func TestWatchEndsWithItsContext(t *testing.T) {
	etcd := plainetcd.Run(t)
	begin := configure(t, etcd, "0", "", "m")
	w := watch(t, client(t, etcd, group(t, etcd, "0"), ofPods()), pods, begin+1)
	w.until(put(t, etcd, pods+"default/web", "1")) // it is open
	w.off()
	for timeout := time.After(deadline); ; {
		select {
		case _, ok := <-w.ch:
			if !ok {
				return
			}
		case <-timeout:
			t.Fatal("it does not end")
		}
	}
}
