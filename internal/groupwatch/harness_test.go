package groupwatch

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

// event is one that happened.
type event struct {
	rev  int64
	kind watch.EventType
	obj  *corev1.ConfigMap
	// table is who owns what from then on, for a change of the configurations.
	table  *ownership.Table
	config *partitionapi.DataPartitionConfig
}

// history is a datastore: what happened, in order.
type history struct {
	mu      sync.Mutex
	events  []event
	changed chan struct{}
	table   *ownership.Table
	configs map[string]*partitionapi.DataPartitionConfig
	objects map[string]*corev1.ConfigMap
	// lost is how many streams break of a thousand, at each event.
	lost int
	// late is how late clients learn of a change of the configurations, unless they do not
	// before held is closed.
	late time.Duration
	held chan struct{}
	down map[string]bool // servers
	// busy servers say when to ask again. lists and streams are what was listed and watched, by
	// server and stream, "" for everything.
	busy    map[string]bool
	lists   map[string]int
	streams map[string]int
	lags    int64 // how many events a cache can be behind
	// cached is the revision of all caches, 0 for that of the datastore. A list that may not be
	// older than another one has that.
	cached int64
	whole  bool // nothing is split
}

func newHistory() *history {
	return &history{
		changed: make(chan struct{}), table: ownership.NewTable(nil), objects: map[string]*corev1.ConfigMap{},
		configs: map[string]*partitionapi.DataPartitionConfig{}, down: map[string]bool{}, busy: map[string]bool{},
		lists: map[string]int{}, streams: map[string]int{},
	}
}

func (h *history) add(e event) int64 {
	e.rev = int64(len(h.events)) + 1
	if e.obj != nil {
		e.obj.ResourceVersion = strconv.FormatInt(e.rev, 10)
	}
	if e.config != nil {
		e.config.ResourceVersion = strconv.FormatInt(e.rev, 10)
	}
	h.events = append(h.events, e)
	close(h.changed)
	h.changed = make(chan struct{})
	return e.rev
}

// configure gives a group a range.
func (h *history) configure(group, start, end string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &partitionapi.DataPartitionConfig{
		ObjectMeta:     metav1.ObjectMeta{Name: "of-" + group, CreationTimestamp: metav1.Unix(1, 0)},
		ServiceGroupID: group,
		RangeStart:     start, IsRangeStartValid: start != "", RangeEnd: end, IsRangeEndValid: end != "",
	}
	kind := watch.Modified
	if h.configs[group] == nil {
		kind = watch.Added
	}
	h.configs[group] = c
	h.retable()
	return h.add(event{kind: kind, config: c, table: h.table})
}

// remove takes the range of a group away.
func (h *history) remove(group string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.configs[group].DeepCopy()
	delete(h.configs, group)
	h.retable()
	h.add(event{kind: watch.Deleted, config: c, table: h.table})
}

func (h *history) retable() {
	var all []ownership.Config
	for _, c := range h.configs {
		all = append(all, ownership.NewConfig(c, 1))
	}
	h.table = ownership.NewTable(all)
}

// write makes, changes or deletes an object.
func (h *history) write(tenant, name string, remove bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: space.Namespace(tenant, "default"), Name: name}}
	key, kind := o.Namespace+"/"+name, watch.Modified
	switch _, ok := h.objects[key]; {
	case remove && !ok:
		return
	case remove:
		kind = watch.Deleted
	case !ok:
		kind = watch.Added
	}
	h.add(event{kind: kind, obj: o})
	h.objects[key] = o
	if remove {
		delete(h.objects, key)
	}
}

// elsewhere is a write of another resource.
func (h *history) elsewhere() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(event{})
}

// same reports whether an informer has what there is.
func (h *history) same(store cache.Store) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := store.List()
	if len(all) != len(h.objects) {
		return false
	}
	for _, obj := range all {
		o := obj.(*corev1.ConfigMap)
		stored := h.objects[o.Namespace+"/"+o.Name]
		if stored == nil || stored.ResourceVersion != o.ResourceVersion {
			return false
		}
	}
	return true
}

// server answers for all groups, as each server of a cluster does.
func (h *history) server(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h.mu.Lock()
		down, busy := h.down[name], h.busy[name]
		h.mu.Unlock()
		if down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		if req.URL.Path == "/readyz" {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		query := req.URL.Query()
		configs := strings.HasSuffix(req.URL.Path, partitionapi.Resource)
		if h.whole {
			req.Header.Del(partitionapi.StreamHeader)
		}
		if query.Get("watch") == "" {
			stream := req.Header.Get(partitionapi.StreamHeader)
			if busy && stream != "" {
				w.Header().Set("Retry-After", "1")
				http.Error(w, "busy", http.StatusTooManyRequests)
				return
			}
			h.list(w, req, configs, name, stream)
			return
		}
		from, _ := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
		stream := req.Header.Get(partitionapi.StreamHeader)
		if stream != "" {
			w.Header().Set(partitionapi.StreamHeader, stream)
			h.mu.Lock()
			h.streams[name+" "+stream]++
			h.mu.Unlock()
		}
		h.watch(w, req, configs, stream, from, query.Get("sendInitialEvents") == "true")
	})
}

// at is what there was at a revision, and who owned what.
func (h *history) at(rev int64) (objects []*corev1.ConfigMap, table *ownership.Table) {
	all := map[string]*corev1.ConfigMap{}
	table = ownership.NewTable(nil)
	for _, e := range h.events[:rev] {
		switch {
		case e.table != nil:
			table = e.table
		case e.obj == nil:
		case e.kind == watch.Deleted:
			delete(all, e.obj.Namespace+"/"+e.obj.Name)
		default:
			all[e.obj.Namespace+"/"+e.obj.Name] = e.obj
		}
	}
	return slices.Collect(maps.Values(all)), table
}

func (h *history) list(w http.ResponseWriter, req *http.Request, configs bool, name, stream string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rev := int64(len(h.events))
	query := req.URL.Query()
	from, err := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	switch {
	case query.Get("resourceVersionMatch") == "Exact":
		rev = from
	case err == nil && h.cached > 0 && !configs:
		rev = max(from, h.cached)
	case err == nil && from == 0 && stream != "":
		rev -= rand.Int64N(min(rev, h.lags) + 1)
	}
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatInt(rev, 10)}
	if configs {
		list := partitionapi.DataPartitionConfigList{ListMeta: meta}
		list.APIVersion, list.Kind = "v1", "DataPartitionConfigList"
		for _, c := range h.configs {
			list.Items = append(list.Items, *c)
		}
		_ = json.NewEncoder(w).Encode(list)
		return
	}
	h.lists[name+" "+stream]++
	list := corev1.ConfigMapList{ListMeta: meta}
	list.APIVersion, list.Kind = "v1", "ConfigMapList"
	objects, table := h.at(rev)
	for _, o := range objects {
		if tenant, _ := space.SplitNamespace(o.Namespace); stream == "" || table.Streams(stream, tenant) {
			list.Items = append(list.Items, *o)
		}
	}
	if stream != "" {
		w.Header().Set(partitionapi.StreamHeader, stream)
		w.Header().Set(partitionapi.StreamsHeader, strings.Join(table.Streamed(), ","))
	}
	if !strings.Contains(req.Header.Get("Accept"), protobufMedia) {
		_ = json.NewEncoder(w).Encode(list)
		return
	}
	w.Header().Set("Content-Type", protobufMedia)
	_ = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(&list, w)
}

func (h *history) watch(
	w http.ResponseWriter, req *http.Request, configs bool, stream string, from int64, initial bool,
) {
	send := func(kind watch.EventType, o runtime.Object) {
		switch o := o.(type) {
		case *corev1.ConfigMap:
			o.APIVersion, o.Kind = "v1", "ConfigMap"
		case *partitionapi.DataPartitionConfig:
			o.APIVersion, o.Kind = "v1", "DataPartitionConfig"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": o})
		w.(http.Flusher).Flush()
	}
	has := func(t *ownership.Table, namespace string) bool {
		tenant, _ := space.SplitNamespace(namespace)
		return stream == "" || t.Streams(stream, tenant)
	}
	h.mu.Lock()
	table := h.table
	if initial {
		objects := slices.Collect(maps.Values(h.objects))
		kept := slices.Collect(maps.Values(h.configs))
		from = int64(len(h.events))
		h.mu.Unlock()
		mark := metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(from, 10),
			Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
		if configs {
			for _, c := range kept {
				send(watch.Added, c.DeepCopy())
			}
			send(watch.Bookmark, &partitionapi.DataPartitionConfig{ObjectMeta: mark})
		} else {
			for _, o := range objects {
				if has(table, o.Namespace) {
					send(watch.Added, o.DeepCopy())
				}
			}
			time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond) // the others are faster
			h.mu.Lock()
			moved := h.table != table
			h.mu.Unlock()
			if moved {
				return
			}
			send(watch.Bookmark, &corev1.ConfigMap{ObjectMeta: mark})
		}
	} else {
		table = ownership.NewTable(nil)
		for _, e := range h.events[:from] {
			if e.table != nil {
				table = e.table
			}
		}
		h.mu.Unlock()
	}
	w.(http.Flusher).Flush()
	for i := from; ; {
		h.mu.Lock()
		next, changed, lost := h.events[i:], h.changed, h.lost
		h.mu.Unlock()
		for _, e := range next {
			i = e.rev
			if e.table != nil {
				table = e.table
			}
			switch {
			case configs && e.config != nil:
				time.Sleep(h.late)
				if h.held != nil {
					select {
					case <-h.held:
					case <-req.Context().Done():
						return
					}
				}
				send(e.kind, e.config.DeepCopy())
			case !configs && e.obj != nil && has(table, e.obj.Namespace):
				send(e.kind, e.obj.DeepCopy())
			}
			if !configs && rand.IntN(1000) < lost {
				return
			}
			if !configs && rand.IntN(10) == 0 {
				send(watch.Bookmark, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					ResourceVersion: strconv.FormatInt(i, 10)}})
			}
			if rand.IntN(20) == 0 {
				time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond) // no two are equally fast
			}
		}
		select {
		case <-changed:
		case <-req.Context().Done():
			return
		}
	}
}

// servers are those of groups.
type servers struct {
	mu sync.Mutex
	of map[string][]string
}

func (s *servers) Group(id string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.of[id])
}

// cluster starts servers of groups, and makes a client that merges their streams.
func cluster(t *testing.T, h *history, groups ...string) (*kubernetes.Clientset, *Groups) {
	t.Helper()
	return clusterOf(t, h, jsonMedia, groups...)
}

// clusterOf is cluster, with the encoding in which the client lists.
func clusterOf(t *testing.T, h *history, media string, groups ...string) (*kubernetes.Clientset, *Groups) {
	t.Helper()
	all := &servers{of: map[string][]string{}}
	var first string
	for _, group := range groups {
		s := httptest.NewServer(h.server(group))
		t.Cleanup(s.Close)
		all.of[group] = []string{strings.TrimPrefix(s.URL, "http://")}
		if first == "" {
			first = s.URL
		}
	}
	log := logrus.New()
	log.SetOutput(t.Output())
	g := New(all, logrus.NewEntry(log))
	plain := &rest.Config{Host: first, QPS: -1}
	client, err := partitionapi.NewClient(plain, nil)
	if err != nil {
		t.Fatal(err)
	}
	follower := g.Component(client)
	go func() { _ = follower.Run(t.Context(), func() {}) }()
	merged := rest.CopyConfig(plain)
	merged.AcceptContentTypes = media
	merged.Wrap(g.Wrap)
	set, err := kubernetes.NewForConfig(merged)
	if err != nil {
		t.Fatal(fmt.Errorf("making a client: %w", err))
	}
	return set, g
}

// change writes an object of a tenant. Six times in a number of calls it also changes who owns
// what, or whether a group is down. All of it is random.
func (h *history) change(random *rand.Rand, tenants []string, calls int) {
	h.write(tenants[random.IntN(len(tenants))], fmt.Sprint("c", random.IntN(10)), random.IntN(5) == 0)
	bound := tenants[1+random.IntN(6)]
	switch random.IntN(calls) {
	case 0, 1, 2:
		h.configure("1", bound, "")
		h.configure("0", "", bound)
	case 3:
		h.configure("2", "t2", "t4")
	case 4:
		h.mu.Lock()
		ok := h.configs["2"] != nil
		h.mu.Unlock()
		if ok {
			h.remove("2")
		}
	case 5:
		h.mu.Lock()
		h.down["1"] = !h.down["1"]
		h.mu.Unlock()
	}
}
