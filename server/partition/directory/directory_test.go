package directory

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

func placed(tenant, partition string) *partitionapi.TenantPlacement {
	return &partitionapi.TenantPlacement{ObjectMeta: metav1.ObjectMeta{Name: tenant},
		Spec:   partitionapi.TenantPlacementSpec{Partition: partition},
		Status: partitionapi.TenantPlacementStatus{Phase: partitionapi.PlacementActive, TenantUID: "uid"}}
}

func options(t *testing.T) Options {
	return Options{Self: "tp2", File: filepath.Join(t.TempDir(), "directory.json"), Home: []string{"192.0.2.1:6443"},
		Log: logrus.NewEntry(logrus.StandardLogger())}
}

// TestKeptOnDisk: a server that starts without home knows where tenants are.
func TestKeptOnDisk(t *testing.T) {
	o := options(t)
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	home := &partitionapi.Partition{ObjectMeta: metav1.ObjectMeta{Name: partitionapi.Home},
		Spec: partitionapi.PartitionSpec{Servers: []partitionapi.PartitionServer{
			{Name: "a", Address: "192.0.2.2:6443"}}}}
	d.partitions.last = byName([]*partitionapi.Partition{home})
	d.placements.last = byName([]*partitionapi.TenantPlacement{placed("far", "main"), placed("near", "tp2")})
	if err := d.write(); err != nil {
		t.Fatal(err)
	}
	again, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if to, uid := again.Elsewhere("far"); to != "main" || uid != "uid" {
		t.Errorf("far is in %q, %q", to, uid)
	}
	for _, tenant := range []string{"near", "unknown"} {
		if to, _ := again.Elsewhere(tenant); to != "" {
			t.Errorf("%s is in %q", tenant, to)
		}
	}
	// Those that were given at the start may be the only ones that run.
	if got := again.Addresses("main"); !slices.Equal(got, []string{"192.0.2.2:6443", "192.0.2.1:6443"}) {
		t.Errorf("home is at %q", got)
	}
	if again.Synced() {
		t.Error("it takes the file for the truth")
	}
}

func TestDamagedFileIsAsGoodAsNone(t *testing.T) {
	o := options(t)
	if err := os.WriteFile(o.File, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := New(o)
	if err != nil || len(d.Placements()) != 0 {
		t.Errorf("%v, %v", d, err)
	}
}

// TestOnlyPartition: without others nothing is elsewhere, whatever is known.
func TestOnlyPartition(t *testing.T) {
	d, err := New(Options{Self: partitionapi.Home, Log: logrus.NewEntry(logrus.StandardLogger())})
	if err != nil {
		t.Fatal(err)
	}
	d.Note(placed("far", "tp2"))
	if to, _ := d.Elsewhere("far"); to != "" || d.Several() {
		t.Errorf("far is in %q", to)
	}
	d.partitions.last = map[string]*partitionapi.Partition{"main": {}, "tp2": {}}
	if to, _ := d.Elsewhere("far"); to != "tp2" {
		t.Errorf("far is in %q", to)
	}
	d.changed("far") // the watch tells of its end
	if to, _ := d.Elsewhere("far"); to != "" {
		t.Errorf("far is still in %q", to)
	}
}

// TestKnown: who is told the partitions learns of changes, and whether there may be others.
func TestKnown(t *testing.T) {
	d, err := New(options(t))
	if err != nil {
		t.Fatal(err)
	}
	one := &partitionapi.Partition{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	watcher := watch.NewFake()
	d.partitions.follow(plain{&cache.ListWatch{
		ListFunc: func(metav1.ListOptions) (runtime.Object, error) {
			return &partitionapi.PartitionList{Items: []partitionapi.Partition{*one}}, nil
		},
		WatchFunc: func(metav1.ListOptions) (watch.Interface, error) { return watcher, nil },
	}}, &partitionapi.Partition{})
	all, complete, changed := d.Known()
	if len(all) != 0 || complete {
		t.Errorf("it begins with %v, %v", all, complete)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.partitions.controller.RunWithContext(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	<-changed
	cache.WaitForCacheSync(t.Context().Done(), d.partitions.live)
	if all, complete, changed = d.Known(); len(all) != 1 || !complete {
		t.Errorf("then it is %v, %v", all, complete)
	}
	watcher.Delete(one)
	<-changed
	if all, complete, _ := d.Known(); len(all) != 0 || !complete {
		t.Errorf("in the end it is %v, %v", all, complete)
	}
}

// plain lists before it watches.
type plain struct{ *cache.ListWatch }

func (plain) IsWatchListSemanticsUnSupported() bool { return true }
