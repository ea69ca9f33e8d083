package directory

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/component"
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
	d.recall([]*partitionapi.Partition{home})
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
	one, two := named("main"), named("tp2")
	d.recall([]*partitionapi.Partition{&one, &two})
	if to, _ := d.Elsewhere("far"); to != "tp2" {
		t.Errorf("far is in %q", to)
	}
	d.changed("far") // the watch tells of its end
	if to, _ := d.Elsewhere("far"); to != "" {
		t.Errorf("far is still in %q", to)
	}
}

// home answers as the home partition does: lists that are older than what it says when it
// is asked for one.
type home struct {
	listed []partitionapi.Partition

	mu    sync.Mutex
	names []string
	asked int
}

func (h *home) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	name, one := strings.CutPrefix(r.URL.Path, "/api/v1/partitions/")
	switch {
	case r.URL.Query().Get("watch") != "":
		w.WriteHeader(http.StatusMethodNotAllowed)
	case one:
		h.asked++
		if !slices.Contains(h.names, name) {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
				Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
			return
		}
		_ = json.NewEncoder(w).Encode(partitionapi.Partition{ObjectMeta: metav1.ObjectMeta{Name: name},
			TypeMeta: metav1.TypeMeta{Kind: "Partition", APIVersion: "v1"}})
	case strings.HasSuffix(r.URL.Path, "/partitions"):
		_ = json.NewEncoder(w).Encode(partitionapi.PartitionList{Items: h.listed,
			TypeMeta: metav1.TypeMeta{Kind: "PartitionList", APIVersion: "v1"},
			ListMeta: metav1.ListMeta{ResourceVersion: "5"}})
	default:
		_ = json.NewEncoder(w).Encode(partitionapi.TenantPlacementList{
			TypeMeta: metav1.TypeMeta{Kind: "TenantPlacementList", APIVersion: "v1"},
			ListMeta: metav1.ListMeta{ResourceVersion: "5"}})
	}
}

func named(name string) partitionapi.Partition {
	return partitionapi.Partition{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}}
}

// TestWhatIsKnownOfPartitions: before there is a list nothing is settled at home; whoever
// waits is told; a partition has left only by the word of home.
func TestWhatIsKnownOfPartitions(t *testing.T) {
	main := named("main")
	at := metav1.Unix(1e9, 0)
	for _, name := range []string{"new", "gone", "other"} {
		main.Spec.Remove(partitionapi.RemovedPartition{Name: name, Identity: "of " + name, At: at})
	}
	h := &home{listed: []partitionapi.Partition{main, named("tp2")}, names: []string{"main", "tp2", "new"}}
	server := httptest.NewServer(h)
	defer server.Close()
	d, err := New(Options{Self: partitionapi.Home, Log: logrus.NewEntry(logrus.StandardLogger())})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Follow(&rest.Config{Host: server.URL}); err != nil {
		t.Fatal(err)
	}
	if _, left, err := d.Left(t.Context(), "gone"); left || err != nil || d.Settled() || d.Several() {
		t.Errorf("before there is a list: left %v, %v, settled %v, several %v", left, err, d.Settled(), d.Several())
	}
	told := make(chan bool, 2)
	go func() { told <- d.Await(t.Context(), func() bool { return d.Settled() && d.Several() }) }()
	go func() { told <- d.Await(t.Context(), d.Synced) }()
	group := component.NewGroup(logrus.NewEntry(logrus.StandardLogger()))
	defer func() {
		if err := group.Stop(); err != nil {
			t.Error(err)
		}
	}()
	group.Start(t.Context(), d.Component())
	for range 2 {
		if !<-told {
			t.Error("who waited was not told")
		}
	}
	// Of one that home does not know, and did not remove, nothing may go.
	for partition, want := range map[string]bool{"main": false, "tp2": false, "new": false, "gone": true,
		"forgotten": false} {
		since, left, err := d.Left(t.Context(), partition)
		if left != want || err != nil || left && !since.Equal(at.Time) {
			t.Errorf("%s: left %v, since %v, %v", partition, left, since, err)
		}
	}
	asked := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.asked
	}
	before := asked()
	if _, left, err := d.Left(t.Context(), "gone"); !left || err != nil || asked() != before {
		t.Errorf("asked again at once: %v, %v", left, err)
	}
	server.Close()
	if _, left, err := d.Left(t.Context(), "other"); left || err == nil {
		t.Errorf("home is down: left %v, %v", left, err)
	}
	changes := d.Changes()
	if err := group.Stop(); err != nil {
		t.Error(err)
	}
	if _, _, more := d.Known(); more != nil {
		t.Error("the server has stopped, and there may be changes")
	}
	<-changes // who listens is told
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if d.Await(ended, func() bool { return false }) {
		t.Error("a wait that ended says that its condition holds")
	}
}

// TestSettledWithoutHome: other partitions go by what they knew last.
func TestSettledWithoutHome(t *testing.T) {
	d, err := New(options(t))
	if err != nil {
		t.Fatal(err)
	}
	if d.Settled() {
		t.Error("nothing is known")
	}
	own := named("tp2")
	d.recall([]*partitionapi.Partition{&own})
	if !d.Settled() {
		t.Error("what was known last does not count")
	}
}

// TestKnown: who is told the partitions learns of changes, and whether there may be others.
func TestKnown(t *testing.T) {
	d, err := New(options(t))
	if err != nil {
		t.Fatal(err)
	}
	one := &partitionapi.Partition{ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec: partitionapi.PartitionSpec{Identity: "id"}}
	watcher := watch.NewFake()
	d.partitions.follow(plain{&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &partitionapi.PartitionList{Items: []partitionapi.Partition{*one}}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watcher, nil
		},
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
	d.learn() // as the component does
	if all, complete, changed = d.Known(); len(all) != 1 || !complete {
		t.Errorf("then it is %v, %v", all, complete)
	}
	// Home does not list it any more: that is not to be removed.
	watcher.Delete(one)
	<-changed
	if all, complete, changed = d.Known(); len(all) != 1 || !complete || len(d.Forgotten()) != 1 ||
		d.Registered("one") != nil {
		t.Errorf("when home forgot it, it is %v, %v", all, complete)
	}
	home := &partitionapi.Partition{ObjectMeta: metav1.ObjectMeta{Name: partitionapi.Home}}
	home.Spec.Remove(partitionapi.RemovedPartition{Name: "one", Identity: "id"})
	watcher.Add(home)
	<-changed
	if all, complete, _ := d.Known(); len(all) != 1 || all[0] != d.Partition("main") || !complete ||
		len(d.Forgotten()) != 0 {
		t.Errorf("in the end it is %v, %v", all, complete)
	}
}

// plain lists before it watches.
type plain struct{ *cache.ListWatch }

func (plain) IsWatchListSemanticsUnSupported() bool { return true }
