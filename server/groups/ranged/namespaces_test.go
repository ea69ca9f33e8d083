package ranged

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/tests/plainetcd"
)

// TestNamespacesThatAreGone: namespaces of the system that come and go do not make a server watch
// everything, neither a watch that begins nor one that goes on.
func TestNamespacesThatAreGone(t *testing.T) {
	etcd := plainetcd.Run(t)
	s := NewSource(Options{Group: "1", Client: etcd, Configs: "/registry/configs/",
		Namespaces: "/registry/namespaces/",
		Decode: func(_ context.Context, _ string, value []byte) (*partitionapi.DataPartitionConfig, error) {
			c := &partitionapi.DataPartitionConfig{}
			return c, json.Unmarshal(value, c)
		}})
	value, err := json.Marshal(&partitionapi.DataPartitionConfig{ServiceGroupID: "1", RangeStart: "z",
		IsRangeStartValid: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Put(t.Context(), s.Configs+"of-1", string(value)); err != nil {
		t.Fatal(err)
	}
	pods := Resource{Prefix: "/registry/pods/", Layout: space.Namespaced}
	first, _, err := s.at(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	open := &merge{watcher: &watcher{source: s, resource: pods}, ctx: t.Context(), view: first}
	var before int64 // the revision of the first of them
	for i := range 2 * maxRanges {
		name := fmt.Sprint("n", i)
		made, err := etcd.Put(t.Context(), s.Namespaces+name, "{}")
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			before = made.Header.Revision
		}
		for what, get := range map[string]func() (*view, error){
			"begins": func() (*view, error) {
				v, _, err := s.at(t.Context(), 0)
				return v, err
			},
			"goes on": func() (*view, error) {
				v, err := open.changed(&change{role: namespaces, namespace: name,
					event: &clientv3.Event{Kv: &mvccpb.KeyValue{ModRevision: made.Header.Revision}}})
				open.view = v
				return v, err
			},
		} {
			v, err := get()
			if err != nil {
				t.Fatal(err)
			}
			if ranges := s.ranges(v, pods); len(ranges) < 2 || len(v.namespaces) > maxNamespaces+1 ||
				!slices.Contains(v.namespaces, name) {
				t.Fatalf("a watch that %s after %d namespaces has those of %d in %d ranges", what, i,
					len(v.namespaces), len(ranges))
			}
		}
		if _, err := etcd.Delete(t.Context(), s.Namespaces+name); err != nil {
			t.Fatal(err)
		}
	}
	if past, _, err := s.at(t.Context(), before); err != nil || !slices.Contains(past.namespaces, "n0") {
		t.Errorf("the past has the namespaces %v: %v", past, err)
	}
}
