package groupwatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

// asProtobuf is the same client with the other encoding.
func asProtobuf(t *testing.T, h *history, groups ...string) (*kubernetes.Clientset, *Groups) {
	t.Helper()
	return clusterOf(t, h, protobufMedia, groups...)
}

// stateAt is name@revision of what there was at a revision, in order.
func (h *history) stateAt(rev int64) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	objects, _ := h.at(rev)
	return stateOf(objects)
}

func stateOf(objects []*corev1.ConfigMap) []string {
	var all []string
	for _, o := range objects {
		all = append(all, o.Namespace+"/"+o.Name+"@"+o.ResourceVersion)
	}
	slices.Sort(all)
	return all
}

func (h *history) listed(what string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lists[what]
}

func revisionOf(t *testing.T, text string) int64 {
	t.Helper()
	rev, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// mustBe checks that a list is what there was at its revision.
func (h *history) mustBe(t *testing.T, list *corev1.ConfigMapList) {
	t.Helper()
	var got []*corev1.ConfigMap
	for i := range list.Items {
		got = append(got, &list.Items[i])
	}
	if got, want := stateOf(got), h.stateAt(revisionOf(t, list.ResourceVersion)); !slices.Equal(got, want) {
		t.Fatalf("a list at %s has %d objects, want %d:\n%q\n%q", list.ResourceVersion, len(got), len(want), got, want)
	}
}

// TestListsAreMerged: a list of everything is one of each stream, from a server of its
// group, in both encodings, and has what there is, with a revision and nothing of its parts.
func TestListsAreMerged(t *testing.T) {
	for name, media := range map[string]string{"JSON": jsonMedia, "protobuf": protobufMedia} {
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			h.configure("0", "", "m")
			h.configure("1", "m", "")
			client, groups := clusterOf(t, h, media, "0", "1")
			lists := func(o metav1.ListOptions) *corev1.ConfigMapList {
				list, err := client.CoreV1().ConfigMaps("").List(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				h.mustBe(t, list)
				return list
			}
			if !groups.wait(t.Context(), deadline) {
				t.Fatal("the configurations are not read")
			}
			if list := lists(metav1.ListOptions{}); len(list.Items) != 0 {
				t.Errorf("%d objects of none", len(list.Items))
			}
			for i, tenant := range []string{"a", "b", "z", space.System} {
				h.write(tenant, fmt.Sprint("c", i), false)
			}
			for i, o := range []metav1.ListOptions{
				{}, {ResourceVersion: "0"}, {ResourceVersion: "0", Limit: 500}, {Limit: 500},
				{ResourceVersion: "4", ResourceVersionMatch: metav1.ResourceVersionMatchExact},
			} {
				lists(o)
				for _, what := range []string{"0 " + partitionapi.Rest, "0 0", "1 1"} {
					if n := h.listed(what); n != i+2 {
						t.Errorf("%+v: %d lists of %q", o, n, what)
					}
				}
			}
			lists(metav1.ListOptions{Limit: 2}) // a few
			if n := h.listed("0 "); n != 1 {
				t.Errorf("%d lists of everything, want that of few objects: %v", n, h.lists)
			}
			if rev := lists(metav1.ListOptions{}).ResourceVersion; rev != "6" {
				t.Errorf("the list has the revision %s", rev)
			}
		})
	}
}

// TestListsWithoutAGroup: without the servers of a group its part comes from another one,
// and when no part does, the whole list does. A server that says when to ask again is asked
// again: the others do not do its work meanwhile.
func TestListsWithoutAGroup(t *testing.T) {
	h := newHistory()
	h.configure("0", "", "m")
	h.configure("1", "m", "")
	client, groups := asProtobuf(t, h, "0", "1")
	for i, tenant := range []string{"a", "z", space.System} {
		h.write(tenant, fmt.Sprint("c", i), false)
	}
	if !groups.wait(t.Context(), deadline) {
		t.Fatal("the configurations are not read")
	}
	list := func() {
		t.Helper()
		list, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if h.mustBe(t, list); len(list.Items) != 3 {
			t.Errorf("%d objects", len(list.Items))
		}
	}
	set := func(m map[string]bool, server string, is bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		m[server] = is
	}
	set(h.down, "1", true)
	list()
	if h.listed("0 1") != 1 {
		t.Errorf("the part of group 1 does not come from another server: %v", h.lists)
	}
	set(h.down, "1", false)
	set(h.busy, "1", true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		list()
	}()
	eventually(t, "nobody asks again", func() bool { return h.listed("0 0") > 2 })
	set(h.busy, "1", false)
	<-done
	if h.listed("0 1") != 1 || h.listed("0 ") != 0 {
		t.Errorf("others do the work of a server that is busy: %v", h.lists)
	}
}

// TestListsWithoutParts: a server that does not know of lists of streams gives all.
func TestListsWithoutParts(t *testing.T) {
	h := newHistory()
	h.configure("0", "", "")
	h.write("a", "one", false)
	inner := h.server("0")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Query().Get("watch") == "" {
			req.Header.Del(partitionapi.StreamHeader)
		}
		inner.ServeHTTP(w, req)
	}))
	defer s.Close()
	g := New(&servers{}, logrus.NewEntry(logrus.New()))
	config := &rest.Config{Host: s.URL}
	config.Wrap(g.Wrap)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if h.mustBe(t, list); len(list.Items) != 1 {
		t.Errorf("%d objects", len(list.Items))
	}
}

// TestListsUnderMoves: while tenants move, groups come and go and servers are down, every
// list is what there was at its revision, no older than the request unless it may be, and a
// watch from it has each event after it once and no other.
func TestListsUnderMoves(t *testing.T) {
	h := newHistory()
	h.lags = 5
	h.configure("0", "", "t3")
	h.configure("1", "t3", "")
	client, groups := asProtobuf(t, h, "0", "1", "2")
	json, _ := cluster(t, h, "0", "1", "2")
	if !groups.wait(t.Context(), deadline) {
		t.Fatal("the configurations are not read")
	}
	tenants := []string{space.System, "t0", "t1", "t2", "t3", "t4", "t5"}
	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		random := rand.New(rand.NewPCG(1, 2))
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond / 2):
			}
			h.change(random, tenants, 60)
		}
	})
	defer busy.Wait()
	defer close(stop)
	for i := range 150 {
		c, o := client, metav1.ListOptions{}
		if i%2 == 0 {
			c = json
		}
		h.mu.Lock()
		before := int64(len(h.events))
		h.mu.Unlock()
		if i%3 == 0 {
			o.ResourceVersion, before = "0", 0
		}
		list, err := c.CoreV1().ConfigMaps("").List(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		h.mustBe(t, list)
		if rev := revisionOf(t, list.ResourceVersion); rev < before {
			t.Fatalf("a list at %d was asked for at %d", rev, before)
		}
		h.watchFrom(t, c, revisionOf(t, list.ResourceVersion))
	}
	if h.listed("0 ") > 0 {
		t.Errorf("some lists were of everything: %v", h.lists)
	}
	t.Log(h.lists)
}

// watchFrom watches from a list on: each of the next events comes once, and none from before.
// Those of a group of which the client learns late may come late, or not if the object had
// a later one. A watch that ends has its client begin anew.
func (h *history) watchFrom(t *testing.T, client kubernetes.Interface, rev int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	w, err := client.CoreV1().ConfigMaps("").Watch(ctx,
		metav1.ListOptions{ResourceVersion: strconv.FormatInt(rev, 10), AllowWatchBookmarks: true})
	if err != nil {
		return
	}
	defer w.Stop()
	seen, missing, newest := map[int64]bool{}, map[int64]string{}, map[string]int64{}
	late := func() bool {
		for at, key := range missing {
			if newest[key] < at {
				return true
			}
		}
		return false
	}
	for reached := rev; reached <= rev+20 || late(); {
		e, ok := <-w.ResultChan()
		o, is := e.Object.(*corev1.ConfigMap)
		if ok && !is {
			return
		}
		if !ok {
			if ctx.Err() != nil {
				t.Fatalf("a watch from %d does not have these events up to %d: %v", rev, reached, missing)
			}
			return
		}
		at := revisionOf(t, o.ResourceVersion)
		if e.Type != watch.Bookmark {
			if at <= rev || seen[at] {
				t.Fatalf("a watch from %d has the event at %d, again", rev, at)
			}
			key := o.Namespace + "/" + o.Name
			if at < newest[key] {
				t.Fatalf("a watch from %d has the event at %d after that at %d", rev, at, newest[key])
			}
			seen[at], newest[key] = true, at
			continue
		}
		h.mu.Lock()
		for _, e := range h.events[reached:max(at, reached)] {
			if e.obj != nil && !seen[e.rev] {
				missing[e.rev] = e.obj.Namespace + "/" + e.obj.Name
			}
		}
		h.mu.Unlock()
		reached = max(reached, at)
	}
}

// groupsBehind are two groups, and caches that are older than what the client knows of them.
func groupsBehind(t *testing.T, whole bool) (*history, *kubernetes.Clientset) {
	t.Helper()
	h := newHistory()
	h.whole = whole
	h.write("z", "first", false)
	h.configure("0", "", "m")
	h.configure("1", "m", "")
	h.cached = 2
	client, groups := cluster(t, h, "0", "1")
	if !groups.wait(t.Context(), deadline) {
		t.Fatal("the configurations are not read")
	}
	return h, client
}

// TestListsAreNotOlderThanTheGroups: an informer that lists from a cache that is older than
// what its client knows of the groups has what comes later, too. One revision that is asked
// for stays what it is.
func TestListsAreNotOlderThanTheGroups(t *testing.T) {
	h, client := groupsBehind(t, false)
	exactly := metav1.ListOptions{ResourceVersion: "2", ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	list, err := client.CoreV1().ConfigMaps("").List(t.Context(), exactly)
	if err != nil || list.ResourceVersion != "2" {
		t.Errorf("a list at revision 2 is %+v: %v", list, err)
	}
	store, _ := informed(t, client)
	for _, tenant := range []string{"a", "z", space.System} {
		h.write(tenant, "later", false)
	}
	eventually(t, "the informer does not have what the datastore has", func() bool { return h.same(store) })
}

// TestWatchOfWhatIsNotSplit: a watch of it begins wherever it is asked to, whatever is known
// of the groups.
func TestWatchOfWhatIsNotSplit(t *testing.T) {
	h, client := groupsBehind(t, true)
	list, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil || list.ResourceVersion != "2" {
		t.Fatalf("the list is %+v: %v", list, err)
	}
	w, err := client.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "2"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	h.write("z", "later", false)
	for e := range w.ResultChan() {
		if o, ok := e.Object.(*corev1.ConfigMap); ok && o.Name == "later" {
			return
		}
	}
	t.Error("the watch ends without the event")
}

// TestListOfADeadServer: somebody who waits for a server that does not answer asks another
// one as soon as it is no server of the group any more, and then at once.
func TestListOfADeadServer(t *testing.T) {
	h := newHistory()
	h.configure("0", "", "m")
	h.configure("1", "m", "")
	h.write("z", "one", false)
	first := httptest.NewServer(h.server("0"))
	defer first.Close()
	dead, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dead.Close() }()
	all := &servers{of: map[string][]string{"1": {dead.Addr().String()}}}
	g := New(all, logrus.NewEntry(logrus.New()))
	config := &rest.Config{Host: first.URL}
	config.Wrap(g.Wrap)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	list := func() {
		list, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Error(err)
		} else if h.mustBe(t, list); len(list.Items) != 1 {
			t.Errorf("%d objects", len(list.Items))
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		list()
	}()
	conn, err := dead.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	all.mu.Lock()
	all.of["1"] = nil
	all.mu.Unlock()
	<-done
	all.mu.Lock()
	all.of["1"] = []string{dead.Addr().String()}
	all.mu.Unlock()
	if got := g.candidates("1"); !slices.Equal(got, []string{"", dead.Addr().String()}) {
		t.Errorf("asked first: %q", got)
	}
	list() // would hang
	if strings.Contains(fmt.Sprint(h.lists), "0 :") {
		t.Errorf("some lists were of everything: %v", h.lists)
	}
}
