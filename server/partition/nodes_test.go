package partition

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/partition/directory"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
)

// listing is the home partition: a list of partitions that grows.
type listing struct {
	mu    sync.Mutex
	names []string
}

func (l *listing) set(names ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names = names
}

func (l *listing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if q := r.URL.Query(); q.Get("sendInitialEvents") != "" {
		w.WriteHeader(http.StatusMethodNotAllowed) // a list is asked for then
		return
	} else if q.Get("watch") != "" {
		// It has to list again.
		w.WriteHeader(http.StatusGone)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: http.StatusGone})
		return
	}
	meta := metav1.ListMeta{ResourceVersion: "5"}
	if !strings.HasSuffix(r.URL.Path, "/partitions") {
		_ = json.NewEncoder(w).Encode(partitionapi.TenantPlacementList{ListMeta: meta,
			TypeMeta: metav1.TypeMeta{Kind: "TenantPlacementList", APIVersion: "v1"}})
		return
	}
	list := partitionapi.PartitionList{ListMeta: meta,
		TypeMeta: metav1.TypeMeta{Kind: "PartitionList", APIVersion: "v1"}}
	for _, name := range l.names {
		list.Items = append(list.Items, partitionapi.Partition{
			ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}})
	}
	_ = json.NewEncoder(w).Encode(list)
}

// resourcesOfHome are those of a server of home, and what follows its directory.
func resourcesOfHome(t *testing.T) (*Nodes, component.Component, *listing) {
	t.Helper()
	l := &listing{}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	log := logrus.NewEntry(logrus.StandardLogger())
	d, err := directory.New(directory.Options{Self: partitionapi.Home, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Follow(&rest.Config{Host: server.URL, QPS: -1}); err != nil {
		t.Fatal(err)
	}
	r := &Nodes{of: &Own{}, parts: &Set{Directory: d}, log: log,
		importer: nodecopies.New(nodecopies.Options{Log: log})}
	return r, d.Component(), l
}

// TestSchedulerStartsAnewForASecondPartition: not before it is known whether there is one,
// once when there is, and then no more.
func TestSchedulerStartsAnewForASecondPartition(t *testing.T) {
	r, follow, home := resourcesOfHome(t)
	type start struct {
		several bool
		ended   <-chan struct{}
	}
	starts := make(chan start, 10)
	group := component.NewGroup(r.log)
	defer func() {
		if err := group.Stop(); err != nil {
			t.Error(err)
		}
		if len(starts) > 0 {
			t.Error("it started once more")
		}
	}()
	group.Start(t.Context(), r.Sharing(component.Component{Name: "scheduler",
		Run: func(ctx context.Context, ready func()) error {
			ready()
			starts <- start{len(r.Plugins()) > 0, ctx.Done()}
			<-ctx.Done()
			return nil
		}}))
	if len(starts) > 0 {
		t.Error("it started before anything was known")
	}
	group.Start(t.Context(), follow)
	first := <-starts
	if first.several {
		t.Error("the only partition shares its nodes")
	}
	home.set("main", "tp2")
	second := <-starts
	<-first.ended
	if !second.several {
		t.Error("it does not share its nodes with the second partition")
	}
	home.set("main", "tp2", "tp3")
	if !r.parts.Await(t.Context(), func() bool { return r.parts.Partition("tp3") != nil }) {
		t.Fatal("the third partition is not known")
	}
}

// TestPodsAreNotLostBeforeTheirNodesAreKnown: alone, at once; with others, when the importer
// has all.
func TestPodsAreNotLostBeforeTheirNodesAreKnown(t *testing.T) {
	r, follow, home := resourcesOfHome(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if !r.mayBeSeveral() {
		t.Error("nodes are taken for those of the only partition before that is known")
	}
	if r.MayCollect(ended) {
		t.Error("pods are collected before it is known whether there are other partitions")
	}
	group := component.NewGroup(r.log)
	defer func() {
		if err := group.Stop(); err != nil {
			t.Error(err)
		}
	}()
	group.Start(t.Context(), follow)
	if !r.MayCollect(t.Context()) {
		t.Error("the only partition collects no pods")
	}
	if r.mayBeSeveral() {
		t.Error("the only partition is taken for one of several")
	}
	home.set("main", "tp2")
	if !r.parts.Await(t.Context(), r.parts.Several) {
		t.Fatal("the second partition is not known")
	}
	if r.MayCollect(ended) {
		t.Error("pods are collected although no node was copied yet")
	}
}
