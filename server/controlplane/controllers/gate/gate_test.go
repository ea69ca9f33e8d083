package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/a4s-io/a4s/internal/space"
)

// controller is one as upstream's are: a queue of keys, and workers.
type controller struct {
	gate    *Gate
	handler *handler
	queue   workqueue.TypedRateLimitingInterface[string]

	mu    sync.Mutex
	begun []string // keys that workers have begun
}

// newController has a handler that enqueues keys, and workers that do sync.
func newController(t *testing.T, workers int, sync func(*controller, string)) *controller {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &controller{gate: New(ctx, workers)}
	c.queue = workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: t.Name()})
	q, err := Metered(t.Name())
	if err != nil {
		t.Fatal(err)
	}
	c.gate.Attach(q)
	enqueue := func(obj any) {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		if err != nil {
			t.Error(err)
		}
		c.queue.Add(key)
	}
	c.handler = &handler{cache.ResourceEventHandlerFuncs{AddFunc: enqueue,
		UpdateFunc: func(_, obj any) { enqueue(obj) }, DeleteFunc: enqueue}, c.gate}
	t.Cleanup(func() {
		cancel()
		c.queue.ShutDown()
	})
	for range workers {
		go func() {
			for {
				key, shutdown := c.queue.Get()
				if shutdown {
					return
				}
				c.mu.Lock()
				c.begun = append(c.begun, key)
				c.mu.Unlock()
				sync(c, key)
				c.queue.Done(key)
			}
		}()
	}
	return c
}

// ask asks something about a namespace, which is answered when wait returns.
func (c *controller) ask(t *testing.T, namespace string, wait func()) {
	name, _ := space.SplitNamespace(namespace)
	if err := c.gate.requests.begin(t.Context(), name); err != nil {
		t.Error(err)
		return
	}
	defer c.gate.requests.end(name)
	wait()
}

// atWork has the controller ask something about a tenant's objects that is not answered.
func atWork(t *testing.T, g *Gate, name string) {
	t.Helper()
	if err := g.requests.begin(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

func (c *controller) has(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.begun, key)
}

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 2*time.Minute, true,
		func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

// Syncs of one tenant that last for ever do not take all workers, and its keys are not before
// those of others.
func TestGateLeavesWorkersForOthers(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	c := newController(t, 4, func(c *controller, key string) {
		if namespace, _, _ := cache.SplitMetaNamespaceKey(key); namespace == "default.acme" {
			c.ask(t, namespace, func() { <-stop })
		}
	})
	for i := range 1000 {
		c.handler.OnAdd(pod("default.acme", fmt.Sprint("a", i)), false)
	}
	until(t, "a sync of acme has begun", func() bool { return c.gate.requests.has("acme") })
	c.handler.OnAdd(pod("default.globex", "b"), false)
	until(t, "the key of globex is synced", func() bool { return c.has("default.globex/b") })
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.begun); n > 4 {
		t.Errorf("%d syncs have begun, want no more than there are workers: %v", n, c.begun)
	}
}

// What one tenant makes others wait for is bounded by the workers, not by what it has.
func TestGateTakesTurns(t *testing.T) {
	step := make(chan struct{})
	c := newController(t, 4, func(c *controller, key string) {
		namespace, _, _ := cache.SplitMetaNamespaceKey(key)
		c.ask(t, namespace, func() { <-step })
	})
	for i := range 500 {
		c.handler.OnAdd(pod("default.acme", fmt.Sprint("a", i)), false)
	}
	tenants := []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"}
	for i := range 50 {
		for _, name := range tenants {
			c.handler.OnAdd(pod("default."+name, fmt.Sprint("b", i)), false)
		}
	}
	go func() {
		for range 900 {
			step <- struct{}{}
		}
	}()
	until(t, "all keys are synced", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.begun) == 500+len(tenants)*50
	})
	last := 0
	for _, name := range tenants {
		last = max(last, slices.Index(c.begun, "default."+name+"/b0"))
	}
	// Before the others came, acme has filled half of the workers and the queue at most.
	if most := 8 + 4*(len(tenants)+1); last > most {
		t.Errorf("the first keys of all tenants are among the first %d synced, want %d", last+1, most)
	}
}

// Keys that are added again while they are worked on count as waiting in upstream's metrics, and are
// in nobody's way.
func TestGateTellsKeysThatWaitForTheirOwn(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	c := newController(t, 8, func(c *controller, key string) {
		if namespace, _, _ := cache.SplitMetaNamespaceKey(key); namespace == "default.acme" {
			c.ask(t, namespace, func() { <-stop })
		}
	})
	for i := range 3 {
		c.handler.OnAdd(pod("default.acme", fmt.Sprint("a", i)), false)
		until(t, "a sync of acme has begun", func() bool { return c.has(fmt.Sprint("default.acme/a", i)) })
		c.handler.OnAdd(pod("default.acme", fmt.Sprint("a", i)), false)
	}
	until(t, "keys wait", func() bool { return c.gate.queue.Depth() == 3 })
	// One passes each second in any case.
	for i := range 60 {
		c.handler.OnAdd(pod("default.globex", fmt.Sprint("b", i)), false)
	}
	until(t, "the keys of globex are synced", func() bool { return c.has("default.globex/b59") })
}

// Tenants that have nothing to do in the controller are forgotten.
func TestGateForgetsTenants(t *testing.T) {
	c := newController(t, 4, func(*controller, string) {})
	for i := range 1000 {
		name := fmt.Sprint("t", i)
		c.handler.OnAdd(pod("default."+name, "p"), false)
		until(t, "the key is synced", func() bool { return c.has("default." + name + "/p") })
	}
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	if n := len(c.gate.tenants); n > fewTenants {
		t.Errorf("%d tenants are kept", n)
	}
}

// An event that waits is told in its order, updates of an object as one.
func TestGateKeepsTheOrderOfAnObject(t *testing.T) {
	var told []string
	g := New(t.Context(), 2)
	q := &heldQueue{depth: 2}
	g.Attach(q)
	q.set(4) // two are the base
	atWork(t, g, "acme")
	label := func(obj any) string { return obj.(*corev1.Pod).Annotations["n"] }
	h := &handler{cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { told = append(told, "add "+label(obj)) },
		UpdateFunc: func(old, obj any) { told = append(told, "update "+label(old)+" "+label(obj)) },
		DeleteFunc: func(obj any) { told = append(told, "delete "+label(obj)) },
	}, g}
	at := func(n int) *corev1.Pod {
		p := pod("default.acme", "p")
		p.Annotations = map[string]string{"n": fmt.Sprint(n)}
		return p
	}
	h.OnAdd(at(1), false)
	for n := 1; n < 5; n++ {
		h.OnUpdate(at(n), at(n+1))
	}
	h.OnDelete(at(5))
	h.OnAdd(at(6), false)
	h.OnUpdate(at(6), at(7))
	system := pod("default", "p")
	system.Annotations = map[string]string{"n": "system"}
	h.OnAdd(system, false)
	first := at(8)
	first.Namespace = "default.globex"
	h.OnAdd(first, true)
	if want := []string{"add system", "add 8"}; !slices.Equal(told, want) {
		t.Fatalf("at once: %q, want %q", told, want)
	}
	told = nil
	q.set(2)
	until(t, "nothing waits", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return !g.pumping
	})
	if want := []string{"add 1", "update 1 5", "delete 5", "add 6", "update 6 7"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// What a controller must know of what was between two updates is not lost: it may have acted on it
// by what its cache said.
func TestGateMergesNoChangeThatGoesBack(t *testing.T) {
	yes := true
	owned := func(change func(*corev1.Pod)) *corev1.Pod {
		p := pod("default.acme", "p")
		p.Labels = map[string]string{"app": "a"}
		p.OwnerReferences = []metav1.OwnerReference{{UID: "1", Controller: &yes}}
		change(p)
		return p
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   int
	}{
		"status": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, 1},
		"labels": {func(p *corev1.Pod) { p.Labels["app"] = "b" }, 2},
		"owners": {func(p *corev1.Pod) { p.OwnerReferences[0].UID = "2" }, 2},
		"uid":    {func(p *corev1.Pod) { p.UID = "2" }, 2},
		"end":    {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, 2},
	} {
		g := New(t.Context(), 2)
		q := &heldQueue{}
		g.Attach(q)
		q.set(100)
		atWork(t, g, "acme")
		h := &handler{cache.ResourceEventHandlerFuncs{}, g}
		before, after := owned(func(*corev1.Pod) {}), owned(c.change)
		g.mu.Lock()
		g.passed = time.Now().Add(time.Hour) // none passes because it waited
		g.pumping = true
		g.mu.Unlock()
		h.OnUpdate(before, after)
		h.OnUpdate(after, before)
		if n := len(g.tenants["acme"].waiting); n != c.want {
			t.Errorf("%s: %d updates wait, want %d", name, n, c.want)
		}
	}
}

// Objects that are deleted, and what they were before they changed, are kept up to a limit.
func TestGateKeepsALimitedMemory(t *testing.T) {
	var told []string
	g := New(t.Context(), 2)
	q := &heldQueue{}
	g.Attach(q)
	q.set(100)
	atWork(t, g, "acme")
	tell := func(what string) func(any) {
		return func(obj any) { told = append(told, what+" "+obj.(metav1.Object).GetName()) }
	}
	h := &handler{cache.ResourceEventHandlerFuncs{AddFunc: tell("add"), DeleteFunc: tell("delete"),
		UpdateFunc: func(_, obj any) { tell("update")(obj) }}, g}
	large := func(name string) *corev1.Pod {
		p := pod("default.acme", name)
		p.Annotations = map[string]string{"a": strings.Repeat("a", 1<<20)}
		return p
	}
	g.pumping = true // nothing passes in its turn
	for i := range 100 {
		name := fmt.Sprint("p", i)
		h.OnAdd(large(name), false)
		h.OnDelete(large(name))
	}
	kept := g.tenants["acme"].kept
	if kept > mostKept || kept < mostKept-2<<20 {
		t.Errorf("%d bytes are kept, want nearly %d", kept, mostKept)
	}
	if want := []string{"add p63", "delete p63"}; len(told) != 2*(100-63) || !slices.Equal(told[:2], want) {
		t.Errorf("%d events passed, the first %q; want %d from %q", len(told), told[:min(2, len(told))], 2*(100-63),
			want)
	}
	told = nil
	g.mu.Lock()
	for len(g.turns) > 0 {
		g.next(0, time.Now())
	}
	g.mu.Unlock()
	if last := g.tenants["acme"]; len(told) != 2*63 || last != nil && last.kept != 0 {
		t.Errorf("%d events passed later, and %+v is left", len(told), last)
	}
}

// A queue that never gets shorter, as a wrong count has it, stops no controller.
func TestGateNeverStops(t *testing.T) {
	g := New(t.Context(), 2)
	q := &heldQueue{}
	g.Attach(q)
	q.set(100)
	atWork(t, g, "acme")
	told := make(chan struct{}, 1)
	h := &handler{cache.ResourceEventHandlerFuncs{AddFunc: func(any) { told <- struct{}{} }}, g}
	h.OnAdd(pod("default.acme", "p"), false)
	select {
	case <-told:
	case <-time.After(2 * time.Minute):
		t.Fatal("the event was not told")
	}
}

// heldQueue is a queue of a depth that the test says. All workers have work if it has any.
type heldQueue struct {
	mu    sync.Mutex
	depth int
}

func (q *heldQueue) set(depth int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.depth = depth
}

func (q *heldQueue) Depth() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.depth
}

func (*heldQueue) Added() int { return 0 }

func (q *heldQueue) Handed() int { return q.Depth() }

func (*heldQueue) Done() int { return 0 }

// Handlers that controllers add to informers get their events through the gate, from a typed
// informer too.
func TestGateHoldsInformersOfControllers(t *testing.T) {
	client := fake.NewClientset()
	g := New(t.Context(), 2)
	f := g.Informers(informers.NewSharedInformerFactory(client, 0))
	told := make(chan string, 4)
	h := cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { told <- obj.(metav1.Object).GetName() }}
	if _, err := f.Core().V1().Pods().Informer().AddEventHandler(h); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Core().V1().Pods().TypedInformer().AddEventHandler(h); err != nil {
		t.Fatal(err)
	}
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	q := &heldQueue{}
	g.Attach(q)
	q.set(100)
	atWork(t, g, "acme")
	_, err := client.CoreV1().Pods("default.acme").Create(t.Context(), pod("", "p"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "both events wait", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.turns) == 1 && len(g.turns[0].waiting) == 2
	})
	q.set(0)
	for range 2 {
		if name := <-told; name != "p" {
			t.Errorf("told of %q", name)
		}
	}
}
