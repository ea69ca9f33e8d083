package ranged_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/groups/ranged"
	"github.com/a4s-io/a4s/tests/plainetcd"
)

const (
	pods       = "/registry/pods/"
	volumes    = "/registry/persistentvolumes/"
	configs    = "/registry/datapartitionconfigs/"
	namespaces = "/registry/namespaces/"
	// deadline bounds every wait.
	deadline = 3 * time.Minute
)

func ofPods() ranged.Resource { return ranged.Resource{Prefix: pods, Layout: space.Namespaced} }

func ofVolumes() ranged.Resource {
	return ranged.Resource{Prefix: volumes, Layout: space.ClusterScoped}
}

// group makes what a server of a group has, with connections of its own.
func group(t testing.TB, etcd *clientv3.Client, name string) *ranged.Source {
	t.Helper()
	return ranged.NewSource(ranged.Options{
		Group: name, Client: plainetcd.Dial(t, etcd.Endpoints()...), Configs: configs, Namespaces: namespaces,
		Decode: func(_ context.Context, _ string, value []byte) (*partitionapi.DataPartitionConfig, error) {
			c := &partitionapi.DataPartitionConfig{}
			return c, json.Unmarshal(value, c)
		},
	})
}

func client(t testing.TB, etcd *clientv3.Client, s *ranged.Source, r ranged.Resource) *ranged.Client {
	t.Helper()
	own := plainetcd.Dial(t, etcd.Endpoints()...)
	return s.New(r, own.KV, own.Watcher, nil)
}

// put stores a value and returns its revision.
func put(t testing.TB, etcd *clientv3.Client, key, value string) int64 {
	t.Helper()
	r, err := etcd.Put(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

func remove(t testing.TB, etcd *clientv3.Client, key string) int64 {
	t.Helper()
	r, err := etcd.Delete(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

// configure gives a group a range, "" for an open end, and tenants. It returns the
// revision.
func configure(t testing.TB, etcd *clientv3.Client, group, start, end string, tenants ...string) int64 {
	t.Helper()
	value, err := json.Marshal(&partitionapi.DataPartitionConfig{
		RangeStart: start, IsRangeStartValid: start != "", RangeEnd: end, IsRangeEndValid: end != "",
		ServiceGroupID: group, Tenants: tenants,
	})
	if err != nil {
		t.Fatal(err)
	}
	return put(t, etcd, configs+"of-"+group, string(value))
}

// list reads the resource in pages of a size, 0 for one.
func list(t testing.TB, c *ranged.Client, prefix string, limit int64) []string {
	t.Helper()
	var keys []string
	var rev int64
	for from, more := prefix, true; more; {
		got, err := c.KV.Get(t.Context(), from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)),
			clientv3.WithLimit(limit), clientv3.WithRev(rev))
		if err != nil {
			t.Fatal(err)
		}
		if rev == 0 {
			rev = got.Header.Revision
		}
		if limit > 0 && int64(len(got.Kvs)) > limit {
			t.Fatalf("a page of %d has %d", limit, len(got.Kvs))
		}
		for _, kv := range got.Kvs {
			keys = append(keys, strings.TrimPrefix(string(kv.Key), prefix))
		}
		if more = got.More; more {
			if len(got.Kvs) == 0 {
				t.Fatal("an empty page says that there is more")
			}
			from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
		}
	}
	return keys
}

// watched is a watch of a resource.
type watched struct {
	t       testing.TB
	ctx     context.Context
	watcher clientv3.Watcher
	ch      clientv3.WatchChan
	off     func()
}

func watch(t testing.TB, c *ranged.Client, prefix string, from int64) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(t.Context()))
	t.Cleanup(cancel)
	w := &watched{t: t, ctx: ctx, watcher: c.Watcher, off: cancel}
	w.ch = c.Watcher.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithPrevKV(),
		clientv3.WithProgressNotify())
	return w
}

// until returns the events, in short, up to and with those of a revision. It asks how
// far the watch is, as upstream's cache does for a consistent list.
func (w *watched) until(rev int64) []string {
	w.t.Helper()
	var events []string
	timeout, ask := time.After(deadline), time.NewTicker(20*time.Millisecond)
	defer ask.Stop()
	for {
		select {
		case r, ok := <-w.ch:
			if err := r.Err(); err != nil || !ok {
				w.t.Fatalf("the watch ended after %q: %v", events, err)
			}
			for _, e := range r.Events {
				events = append(events, short(e))
			}
			if r.Header.GetRevision() >= rev {
				return events
			}
		case <-ask.C:
			if err := w.watcher.RequestProgress(w.ctx); err != nil {
				w.t.Fatal(err)
			}
		case <-timeout:
			w.t.Fatalf("revision %d does not come after %q", rev, events)
		}
	}
}

// short is an event as tests write it: +key=value or -key, at a revision.
func short(e *clientv3.Event) string {
	key := strings.TrimPrefix(strings.TrimPrefix(string(e.Kv.Key), pods), volumes)
	if e.Type == clientv3.EventTypeDelete {
		if e.PrevKv == nil {
			return fmt.Sprintf("-%s@%d without what it was", key, e.Kv.ModRevision)
		}
		return fmt.Sprintf("-%s@%d", key, e.Kv.ModRevision)
	}
	return fmt.Sprintf("+%s=%s@%d", key, e.Kv.Value, e.Kv.ModRevision)
}
