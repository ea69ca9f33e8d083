package ranged_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/groups/balance"
	"github.com/a4s-io/a4s/server/groups/ranged"
	"github.com/a4s-io/a4s/tests/plainetcd"
)

var errKilled = errors.New("the process was ended")

// configStore has the configurations in etcd. Its process ends after one write.
type configStore struct {
	etcd *clientv3.Client
	used bool
}

func (s *configStore) List(ctx context.Context, _ metav1.ListOptions) (*partitionapi.DataPartitionConfigList, error) {
	got, err := s.etcd.Get(ctx, configs, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	list := &partitionapi.DataPartitionConfigList{}
	for _, kv := range got.Kvs {
		var c partitionapi.DataPartitionConfig
		if err := json.Unmarshal(kv.Value, &c); err != nil {
			return nil, err
		}
		c.Name, c.ResourceVersion = strings.TrimPrefix(string(kv.Key), configs), fmt.Sprint(kv.ModRevision)
		list.Items = append(list.Items, c)
	}
	return list, nil
}

func (s *configStore) Update(ctx context.Context, c *partitionapi.DataPartitionConfig, _ metav1.UpdateOptions) (
	*partitionapi.DataPartitionConfig, error,
) {
	if s.used {
		return nil, errKilled
	}
	s.used = true
	value, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	r, err := s.etcd.Put(ctx, configs+c.Name, string(value))
	if err != nil {
		return nil, err
	}
	c = c.DeepCopy()
	c.ResourceVersion = fmt.Sprint(r.Header.Revision)
	return c, nil
}

// holder is the memory of a server: a list, and all that its watch has brought since.
type holder struct {
	group string
	keys  map[string]bool
	*watched
}

// start begins a server of a group.
func start(t *testing.T, etcd *clientv3.Client, name string) *holder {
	t.Helper()
	c := client(t, etcd, group(t, etcd, name), ofPods())
	h := &holder{group: name, keys: map[string]bool{}}
	for _, key := range list(t, c, pods, 0) {
		h.keys[key] = true
	}
	h.watched = watch(t, c, pods, now(t, etcd)+1)
	return h
}

// now is the revision of the datastore.
func now(t *testing.T, etcd *clientv3.Client) int64 {
	t.Helper()
	got, err := etcd.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	return got.Header.Revision
}

// reach has the server see all up to a revision.
func (h *holder) reach(rev int64) {
	h.t.Helper()
	for _, e := range h.until(rev) {
		what, _, _ := strings.Cut(e[1:], "@")
		key, _, _ := strings.Cut(what, "=")
		if e[0] == '-' {
			if !h.keys[key] {
				h.t.Errorf("group %s takes out %s, which it did not have", h.group, key)
			}
			delete(h.keys, key)
		} else {
			h.keys[key] = true
		}
	}
}

func (h *holder) has() []string { return slices.Sorted(maps.Keys(h.keys)) }

// dying ends its server as the first object of a move is about to be put in or taken out.
type dying struct{ end context.CancelFunc }

func (dying) Begin(*ownership.Table, int64)      {}
func (dying) Configured(*ownership.Table, int64) {}
func (dying) End()                               {}

func (d dying) Change(gone, come []ownership.Span, _ int64) { d.end() }

func (dying) Changed(context.Context, *ownership.Table, *clientv3.Event) bool { return true }

// dieInMove begins a server of a group that ends in the middle of the next move. The function
// that it returns waits until it has ended, or has seen a revision without a move of its own,
// and reports whether it ended.
func dieInMove(t *testing.T, etcd *clientv3.Client, name string) func(rev int64) bool {
	t.Helper()
	own := plainetcd.Dial(t, etcd.Endpoints()...)
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(t.Context()))
	t.Cleanup(cancel)
	c := group(t, etcd, name).New(ofPods(), own.KV, own.Watcher, dying{cancel})
	ch := c.Watcher.Watch(ctx, pods, clientv3.WithPrefix(), clientv3.WithRev(now(t, etcd)+1), clientv3.WithPrevKV(),
		clientv3.WithProgressNotify())
	return func(rev int64) bool {
		t.Helper()
		timeout := time.After(deadline)
		for {
			select {
			case r, ok := <-ch:
				switch {
				case !ok:
					return true
				case len(r.Events) > 0 && ctx.Err() == nil && slices.ContainsFunc(r.Events, isMove):
					t.Errorf("group %s moves %s without a word", name, short(r.Events[0]))
				case r.Header.GetRevision() >= rev && ctx.Err() == nil:
					cancel()
					return false
				}
			case <-timeout:
				t.Fatalf("the server of group %s neither ends nor sees revision %d", name, rev)
			}
		}
	}
}

// isMove reports whether an event is of a tenant: nothing else writes those here.
func isMove(e *clientv3.Event) bool {
	return ownership.TenantOf(space.Namespaced, strings.TrimPrefix(string(e.Kv.Key), pods)) != space.System
}

// movesOf are kinds of moves between two groups, each a proposal of several writes.
var movesOf = map[string]struct {
	zero, one func(t *testing.T, etcd *clientv3.Client)
	propose   func(c []partitionapi.DataPartitionConfig) (*balance.Proposal, error)
}{
	"to the right": {
		func(t *testing.T, etcd *clientv3.Client) { configure(t, etcd, "0", "", "n") },
		func(t *testing.T, etcd *clientv3.Client) { configure(t, etcd, "1", "n", "") },
		func(c []partitionapi.DataPartitionConfig) (*balance.Proposal, error) {
			loads := balance.Loads{"a": {Objects: 10}, "a-b": {Objects: 10}, "m": {Objects: 10}, "zoo": {Objects: 10}}
			return balance.Suggest(c, loads, func(string) bool { return true }), nil
		},
	},
	"drain": {
		func(t *testing.T, etcd *clientv3.Client) { configure(t, etcd, "0", "", "m") },
		func(t *testing.T, etcd *clientv3.Client) { configure(t, etcd, "1", "m", "", "a") },
		func(c []partitionapi.DataPartitionConfig) (*balance.Proposal, error) {
			return balance.Drain(c, nil, "1")
		},
	},
	"drain the first": {
		func(t *testing.T, etcd *clientv3.Client) { configure(t, etcd, "0", "", "m", "zoo") },
		func(t *testing.T, etcd *clientv3.Client) { configure(t, etcd, "1", "m", "") },
		func(c []partitionapi.DataPartitionConfig) (*balance.Proposal, error) {
			return balance.Drain(c, nil, "0")
		},
	},
}

// TestKilledBetweenWritesOfAMove: this package writes nothing, and what servers have in memory
// follows the writes of a move, which are several. Who moves ends after each of its writes, and
// so does who goes on with it. Meanwhile a server of each group ends in the middle of what a
// write means to it, and one starts after each write. At each of them every tenant is held by
// one group, whole, and all servers of a group hold the same, whenever they started.
func TestKilledBetweenWritesOfAMove(t *testing.T) {
	for name, m := range movesOf {
		t.Run(name, func(t *testing.T) {
			etcd := plainetcd.Run(t)
			fill(t, etcd)
			m.zero(t, etcd)
			m.one(t, etcd)
			running := []*holder{start(t, etcd, "0"), start(t, etcd, "1")}
			p, err := m.propose(read(t, etcd))
			if err != nil || p == nil || len(p.Configs) < 2 {
				t.Fatalf("the proposal is %v: %v", p, err)
			}
			died, writes := 0, 0
			for p != nil {
				dying := []func(int64) bool{dieInMove(t, etcd, "0"), dieInMove(t, etcd, "1")}
				err := (&balance.Store{Configs: &configStore{etcd: etcd}}).Apply(t.Context(), p)
				if last := len(p.Configs) == 1; last != (err == nil) || !last && !errors.Is(err, errKilled) {
					t.Fatalf("of %d writes one was made: %v", len(p.Configs), err)
				}
				writes++
				rev := put(t, etcd, pods+"zoo/web", fmt.Sprint(writes)) // of the system: both groups see it
				for _, wait := range dying {
					if wait(rev) {
						died++
					}
				}
				for _, h := range running {
					h.reach(rev)
				}
				running = append(running, start(t, etcd, "0"), start(t, etcd, "1"))
				checkHeld(t, fmt.Sprintf("after %d writes", writes), running)
				p = balance.Interrupted(read(t, etcd))
			}
			if writes < 2 || died == 0 {
				t.Errorf("there were %d writes, and %d servers ended in the middle of one", writes, died)
			}
		})
	}
}

// read is what is stored of the groups.
func read(t *testing.T, etcd *clientv3.Client) []partitionapi.DataPartitionConfig {
	t.Helper()
	list, err := (&configStore{etcd: etcd}).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// checkHeld compares the servers of each group, and the groups with what there is.
func checkHeld(t *testing.T, when string, running []*holder) {
	t.Helper()
	groups := map[string][]string{}
	for i, h := range running {
		if was, ok := groups[h.group]; ok && !slices.Equal(was, h.has()) {
			t.Errorf("%s server %d of group %s has %q, the first one %q", when, i, h.group, h.has(), was)
		} else if !ok {
			groups[h.group] = h.has()
		}
	}
	count := map[string]int{}
	for _, keys := range groups {
		for _, key := range keys {
			count[key]++
		}
	}
	want := map[string]int{"default/web": 2, "kube-system/web": 2, "zoo/web": 2, "a/default/web": 1,
		"a-b/default/web": 1, "m/default/web": 1, "zoo/default/web": 1}
	if !maps.Equal(count, want) {
		t.Errorf("%s so many groups hold each object: %v, want %v", when, count, want)
	}
}

var _ ranged.Changes = dying{}
