package groupwatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
)

// deadline bounds every wait.
const deadline = 3 * time.Minute

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > deadline {
			t.Fatal(what)
		}
	}
}

// shownTo checks that what an informer is shown of each object goes forward.
type shownTo struct {
	t    *testing.T
	mu   sync.Mutex
	revs map[string]int64
	all  int
}

func (s *shownTo) see(obj any, what string) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	o := obj.(*corev1.ConfigMap)
	rev, _ := strconv.ParseInt(o.ResourceVersion, 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all++
	if key := o.Namespace + "/" + o.Name; rev < s.revs[key] {
		s.t.Errorf("%s of %s at %d after %d", what, key, rev, s.revs[key])
	} else {
		s.revs[key] = rev
	}
}

// informed starts an informer behind the transport. Its store is complete.
func informed(t *testing.T, client kubernetes.Interface) (cache.Store, *shownTo) {
	t.Helper()
	seen := &shownTo{t: t, revs: map[string]int64{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { seen.see(o, "add") },
		UpdateFunc: func(_, o any) { seen.see(o, "update") },
		DeleteFunc: func(o any) { seen.see(o, "delete") },
	}); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the informer does not become ready")
	}
	return informer.GetStore(), seen
}

// TestInformerUnderMoves: an informer behind the transport has in the end what the
// datastore has, and never sees an object go back, while tenants move, groups come and go,
// streams break, servers are down, and the configurations come late.
func TestInformerUnderMoves(t *testing.T) {
	for name, set := range map[string]func(h *history){
		"streams stay":             func(*history) {},
		"streams break":            func(h *history) { h.lost = 5 },
		"configurations come late": func(h *history) { h.late = 40 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			set(h)
			informerUnderMoves(t, h)
		})
	}
}

// TestInformerBeginsAtAChange: an informer that begins when its client has not learned of a
// change that the servers know is complete, all the same: a node would end the pods that
// it does not find.
func TestInformerBeginsAtAChange(t *testing.T) {
	h := newHistory()
	h.held = make(chan struct{})
	h.write("a", "one", false)
	h.write("z", "two", false)
	client, groups := cluster(t, h, "0", "1")
	if !groups.wait(t.Context(), deadline) {
		t.Fatal("the configurations are not read")
	}
	for _, c := range [][3]string{{"0", "", "m"}, {"1", "m", ""}, {"0", "", "b"}, {"1", "b", ""}} {
		h.configure(c[0], c[1], c[2])
		if store, _ := informed(t, client); !h.same(store) {
			t.Errorf("after the configuration %q the informer begins with %v", c, store.ListKeys())
		}
	}
	close(h.held)
	store, _ := informed(t, client)
	h.write("a", "three", false)
	h.write("z", "four", false)
	eventually(t, "the informer goes on", func() bool { return h.same(store) })
}

func informerUnderMoves(t *testing.T, h *history) {
	h.configure("0", "", "t3")
	h.configure("1", "t3", "")
	client, _ := cluster(t, h, "0", "1", "2")
	tenants := []string{space.System, "t0", "t1", "t2", "t3", "t4", "t5"}
	for _, tenant := range tenants {
		for n := range 10 {
			h.write(tenant, fmt.Sprint("c", n), false)
		}
	}
	store, seen := informed(t, client)
	random := rand.New(rand.NewPCG(1, uint64(h.lost)))
	for i := range 3000 {
		h.change(random, tenants, 300)
		if i%10 == 0 {
			time.Sleep(time.Millisecond) // else it would be one burst
		}
	}
	eventually(t, "the informer does not have what the datastore has", func() bool {
		return h.same(store)
	})
	seen.mu.Lock()
	defer seen.mu.Unlock()
	t.Logf("%d events, %d shown", len(h.events), seen.all)
}

// TestWatchResumes: a client that returns with the revision of an event misses nothing and
// sees nothing again, though the streams were not equally far; one whose revision is
// forgotten gets 410.
func TestWatchResumes(t *testing.T) {
	h := newHistory()
	h.configure("0", "", "m")
	h.configure("1", "m", "")
	client, groups := cluster(t, h, "0", "1")
	h.write("a", "one", false)
	if !groups.wait(t.Context(), deadline) {
		t.Fatal("the configurations are not read")
	}
	list, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rev, seen := list.ResourceVersion, map[string]int{}
	for round := range 30 {
		for i := range 4 {
			h.write([]string{"a", "z"}[i%2], fmt.Sprintf("c%d-%d", round, i), false)
		}
		ctx, cancel := context.WithCancel(t.Context())
		w, err := client.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{ResourceVersion: rev})
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + round%5 { // not all that there are
			e, ok := <-w.ResultChan()
			o, isOne := e.Object.(*corev1.ConfigMap)
			if !ok || !isOne {
				t.Fatalf("%+v", e)
			}
			seen[o.Name]++
			rev = o.ResourceVersion
		}
		w.Stop()
		cancel()
	}
	w, err := client.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: rev})
	if err != nil {
		t.Fatal(err)
	}
	for len(seen) < 120 {
		select {
		case e := <-w.ResultChan():
			seen[e.Object.(*corev1.ConfigMap).Name]++
		case <-time.After(deadline):
			t.Fatalf("only %d of 120 came", len(seen))
		}
	}
	w.Stop()
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", name, n)
		}
	}
	h.configure("2", "c", "d")
	for n := range 2 * maxShown {
		h.write("a", fmt.Sprint("d", n), false)
	}
	again, err := client.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: rev})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * maxShown {
		<-again.ResultChan()
	}
	again.Stop()
	_, err = client.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: rev})
	if err == nil {
		t.Error("a revision that is forgotten is not refused")
	}
}

// TestBookmarks: a bookmark has a revision that all streams have reached.
func TestBookmarks(t *testing.T) {
	h := newHistory()
	h.configure("0", "", "m")
	h.configure("1", "m", "")
	client, groups := cluster(t, h, "0", "1")
	if !groups.wait(t.Context(), deadline) {
		t.Fatal("the configurations are not read")
	}
	w, err := client.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: "2", AllowWatchBookmarks: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	go func() {
		for n := range 500 {
			h.write([]string{"a", "z", space.System}[n%3], fmt.Sprint("c", n), false)
			h.elsewhere()
		}
	}()
	seen, marks := map[int64]bool{}, 0
	for marks < 5 {
		e := <-w.ResultChan()
		o := e.Object.(*corev1.ConfigMap)
		rev, _ := strconv.ParseInt(o.ResourceVersion, 10, 64)
		if e.Type != watch.Bookmark {
			seen[rev] = true
			continue
		}
		marks++
		if seen[rev] {
			t.Fatalf("a bookmark has the revision %d of an event", rev)
		}
		for missing := int64(3); missing <= rev; missing += 2 {
			if !seen[missing] {
				t.Fatalf("a bookmark at %d comes before the event at %d", rev, missing)
			}
		}
	}
}
