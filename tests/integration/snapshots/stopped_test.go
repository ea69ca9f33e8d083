package snapshots

import (
	"fmt"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/server/datastore/release"
	"github.com/a4s-io/a4s/server/datastore/snapshots"
)

// What a newer a4s saves before it begins is what the older one left, to the last
// write, and the older one can restore it.
func TestSnapshotOfAStoppedServer(t *testing.T) {
	c := newControlPlane(t)
	c.start(t)
	var last int64
	for i := range 500 {
		last = c.put(t, fmt.Sprintf("/registry/x/%d", i), "before")
	}
	c.stop()
	server := filepath.Join(c.dataDir, "server")
	before := tree(t, server)
	older := release.Record{Version: "v0.0.1", Kubernetes: "v1.0.0"}
	e, err := snapshots.SaveStopped(c.options(), older)
	if err != nil {
		t.Fatal(err)
	}
	if !same(before, tree(t, server)) {
		t.Error("the save changed the directory of the server")
	}
	if e.Manifest.Revision != last || e.Manifest.Kubernetes != older.Kubernetes ||
		e.Manifest.Version != older.Version {
		t.Errorf("%+v, want revision %d of %s", e.Manifest, last, older)
	}

	c.start(t)
	c.put(t, "/registry/x/0", "after")
	c.stop()
	if _, err := c.restore(e.Path); err != nil {
		t.Fatal(err)
	}
	if r, err := release.Read(server); err != nil || r.Version != older.Version || r.Kubernetes != older.Kubernetes {
		t.Errorf("after the restore the data are of %+v, %v", r, err)
	}
	c.start(t)
	got, err := c.client.Get(t.Context(), "/registry/x/", clientv3.WithPrefix())
	if err != nil || len(got.Kvs) != 500 {
		t.Fatalf("%v keys, %v", got, err)
	}
	for _, kv := range got.Kvs {
		if string(kv.Value) != "before" {
			t.Errorf("%s is %s", kv.Key, kv.Value)
		}
	}
}
