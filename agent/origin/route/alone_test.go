package route

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/tests/partitiontest"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAlonePassesEverything compares what the only partition gets and says with what
// is sent and comes.
func TestAlonePassesEverything(t *testing.T) {
	var got *http.Request
	says := []byte("any\x00bytes")
	home := origin.Partition{Name: "main", Home: true, Transport: roundTripper(
		func(r *http.Request) (*http.Response, error) {
			got = r
			return &http.Response{StatusCode: http.StatusTeapot, Header: http.Header{"X": {"y"}},
				Body: io.NopCloser(bytes.NewReader(says)), Request: r}, nil
		})}
	dir := t.TempDir()
	n := newNode(t, Options{Partitions: newDirectory(home), Dir: dir})
	for _, tc := range []struct{ method, url string }{
		{"GET", "http://x/api/v1/pods?fieldSelector=spec.nodeName%3Dnode1"},
		{"GET", "http://x/api/v1/pods?watch=1"},
		{"GET", "http://x/api/v1/namespaces/kube-system.tp2.system/secrets/s"},
		{"GET", "http://x/api/v1/a%2Fb"},
		{"POST", "http://x/apis/authentication.k8s.io/v1/tokenreviews"},
		{"PATCH", "http://x/api/v1/nodes/node1/status"},
	} {
		r, err := http.NewRequest(tc.method, tc.url, bytes.NewReader([]byte("body")))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := origin.New(n, origin.Options{}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if err != nil || !bytes.Equal(body, says) || resp.StatusCode != http.StatusTeapot ||
			resp.Header.Get("X") != "y" {
			t.Errorf("%s: %v %q %v", tc.url, resp, body, err)
		}
		sent, _ := io.ReadAll(got.Body)
		if got.URL != r.URL || got.Method != tc.method || string(sent) != "body" {
			t.Errorf("%s came as %s %s %q", tc.url, got.Method, got.URL, sent)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.watches) != 0 {
		t.Errorf("%d watches have not ended", len(n.watches))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(files) != 0 {
		t.Errorf("on disk are %v, %v", files, err)
	}
}

// TestAloneCostsNothing counts what one request allocates, with and without a Router.
func TestAloneCostsNothing(t *testing.T) {
	resp := &http.Response{StatusCode: http.StatusCreated}
	rt := roundTripper(func(*http.Request) (*http.Response, error) { return resp, nil })
	n := newNode(t, Options{Partitions: newDirectory(origin.Partition{Name: "main", Home: true, Transport: rt})})
	cost := func(uplink origin.Uplink) float64 {
		transport := origin.New(uplink, origin.Options{})
		r, err := http.NewRequest(http.MethodPatch, "http://x/api/v1/namespaces/default.t1/pods/web/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(100, func() {
			if _, err := transport.RoundTrip(r); err != nil {
				t.Fatal(err)
			}
		})
	}
	if direct, alone := cost(origin.Direct(rt)), cost(n); alone > direct {
		t.Errorf("a request allocates %v times, %v without a router", alone, direct)
	}
}

// kubelet lists and watches its pods as the real one does, and remembers every state.
type kubelet struct {
	mu   sync.Mutex
	sets []map[string]types.UID
}

func (n *node) kubelet(t *testing.T) *kubelet {
	t.Helper()
	k, _ := n.runKubelet(t)
	return k
}

func (n *node) runKubelet(t *testing.T) (k *kubelet, stop func()) {
	t.Helper()
	k = &kubelet{}
	ctx, cancel := context.WithCancel(context.Background())
	lw := cache.NewListWatchFromClient(n.client(t).CoreV1().RESTClient(), "pods", "",
		fields.OneTermEqualSelector("spec.nodeName", nodeName))
	reflector := cache.NewReflector(lw, &corev1.Pod{}, cache.NewUndeltaStore(k.told, cache.MetaNamespaceKeyFunc), 0)
	var wg sync.WaitGroup
	wg.Go(func() { reflector.Run(ctx.Done()) })
	stop = func() {
		cancel()
		wg.Wait()
	}
	t.Cleanup(stop)
	return k, stop
}

// states is how many states the kubelet was told.
func (k *kubelet) states() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.sets)
}

func (k *kubelet) told(objs []any) {
	set := map[string]types.UID{}
	for _, obj := range objs {
		if p, ok := obj.(*corev1.Pod); ok {
			set[p.Namespace+"/"+p.Name] = p.UID
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sets = append(k.sets, set)
}

func (k *kubelet) last() map[string]types.UID {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.sets) == 0 {
		return nil
	}
	return k.sets[len(k.sets)-1]
}

// await waits until the kubelet has so many pods, and checks that it never lost the
// one that was there from the beginning.
func (k *kubelet) await(t *testing.T, want int) {
	t.Helper()
	eventually(t, func() bool { return len(k.last()) == want }, func() any { return k.last() })
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, set := range k.sets {
		if set["default.t1/web"] != "1" {
			t.Errorf("state %d of %d is %v", i, len(k.sets), set)
		}
	}
}

// TestASecondPartitionJoins while the kubelet runs, leaves and joins again.
func TestASecondPartitionJoins(t *testing.T) {
	home, tp2 := partitiontest.New(t, "main"), partitiontest.New(t, "tp2")
	home.Put(t, "pods", pod("default.t1", "web", "1"))
	home.Put(t, "nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})
	tp2.Put(t, "pods", pod("default.t2", "web", "2"))
	d := newDirectory(home.Partition(true))
	n := newNode(t, Options{Partitions: d, Dir: t.TempDir()})
	k := n.kubelet(t)
	k.await(t, 1)
	if asked := len(home.Asked("GET", "/")); asked == 0 {
		t.Error("home was not asked")
	}
	second := tp2.Partition(false)
	d.set(home.Partition(true), second)
	k.await(t, 2)
	home.Put(t, "pods", pod("default.t1", "web2", "3"))
	k.await(t, 3)
	api := n.client(t)
	if _, err := api.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{}); err != nil {
		t.Errorf("the node, whose resource partition is home: %v", err)
	}
	d.set(home.Partition(true))
	k.await(t, 2)
	if _, err := api.CoreV1().Secrets("default.t2").Get(t.Context(), "s", metav1.GetOptions{}); apierrors.
		IsServiceUnavailable(err) {
		t.Errorf("with one partition all tenants are there: %v", err)
	}
	d.set(second, home.Partition(true))
	k.await(t, 3)
}

// TestASecondPartitionJoinsThatIsAway must stop nothing.
func TestASecondPartitionJoinsThatIsAway(t *testing.T) {
	home, tp2 := partitiontest.New(t, "main"), partitiontest.New(t, "tp2")
	home.Put(t, "pods", pod("default.t1", "web", "1"))
	tp2.Away.Store(true)
	d := newDirectory(home.Partition(true))
	n := newNode(t, Options{Partitions: d, Dir: t.TempDir()})
	k := n.kubelet(t)
	k.await(t, 1)
	d.set(home.Partition(true), tp2.Partition(false))
	home.Put(t, "pods", pod("default.t1", "web2", "3"))
	k.await(t, 2)
}

func TestListsOfPartitionsThatCannotBe(t *testing.T) {
	c := newCluster(t, Options{})
	home, tp2 := c.home.Partition(true), c.tp2.Partition(false)
	wrong := [][]origin.Partition{
		{},
		{tp2},
		{c.home.Partition(false), tp2},
		{home, c.tp2.Partition(true)},
		{home, tp2, tp2},
		{c.home.Partition(false), c.tp2.Partition(true)},
		{home, tp2, {Name: "../x", Transport: tp2.Transport}},
		{home, {Name: "tp3"}},
		{{Name: "other", Home: true, Transport: home.Transport}, tp2},
	}
	before := c.table.Load()
	for i, all := range wrong {
		messages := len(c.log.AllEntries())
		c.directory.set(all...)
		if i > 0 {
			eventually(t, func() bool { return len(c.log.AllEntries()) > messages }, func() any { return all })
		}
		if c.table.Load() != before || len(podsOf(t, c.api)) != 4 {
			t.Errorf("list %d is taken over: %v", i, all)
		}
	}
}

func TestUntilThePartitionsAreKnown(t *testing.T) {
	rp := partitiontest.New(t, "rp")
	rp.Put(t, "nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})
	d := newDirectory()
	n := newNode(t, Options{Partitions: d, ResourcePartition: rp.Transport(), Dir: t.TempDir(), Fresh: true})
	api := n.client(t)
	if _, err := api.CoreV1().Pods("").List(t.Context(), ownPods); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("the pods: %v", err)
	}
	if _, err := api.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{}); err != nil {
		t.Errorf("the node: %v", err)
	}
	home := partitiontest.New(t, "main")
	home.Put(t, "pods", pod("default.t1", "web", "1"))
	d.set(home.Partition(true))
	eventually(t, func() bool { return len(podsOf(t, api)) == 1 }, func() any { return podsOf(t, api) })
	if _, err := os.Stat(filepath.Join(n.o.Dir, "main")); err != nil {
		t.Error(err)
	}
}
