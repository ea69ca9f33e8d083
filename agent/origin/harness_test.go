package origin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/agent/bootstrap/store"
)

const nodeName = "node1"

// podServer serves pods in lists and watches, and says what a test wants.
type podServer struct {
	*httptest.Server

	mu      sync.Mutex
	pods    map[string]corev1.Pod
	version int
	down    bool
	// away makes connections fail.
	away atomic.Bool
	// stale, if set, is what lists say instead: the past.
	stale   *corev1.PodList
	watches map[chan metav1.WatchEvent]bool
	said    []saying
	lists   int
	limited bool // a list asked for a page
}

// saying is what watches were told of a version.
type saying struct {
	version int
	event   metav1.WatchEvent
}

func newPodServer(t *testing.T) *podServer {
	t.Helper()
	a := &podServer{pods: map[string]corev1.Pod{}, version: 100, watches: map[chan metav1.WatchEvent]bool{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(func() {
		a.CloseClientConnections()
		a.Close()
	})
	return a
}

// road leads to the server, unless it is away.
func (a *podServer) road(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if a.away.Load() {
			return nil, syscall.ECONNREFUSED
		}
		return next.RoundTrip(r)
	})
}

func (a *podServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	if a.down {
		a.mu.Unlock()
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	switch {
	case r.URL.Path == "/api/v1/nodes" && r.URL.Query().Get("watch") == "":
		a.mu.Unlock()
		_ = enc.Encode(&corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"},
			ListMeta: metav1.ListMeta{ResourceVersion: "1"},
			Items: []corev1.Node{
				{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{"zone": "a"}}},
			}})
	case r.URL.Path != "/api/v1/pods":
		a.mu.Unlock()
		http.NotFound(w, r)
	case r.URL.Query().Get("watch") == "":
		a.lists++
		a.limited = a.limited || r.URL.Query().Get("limit") != ""
		list := a.stale
		if list == nil {
			list = a.list()
		}
		a.mu.Unlock()
		_ = enc.Encode(list)
	default:
		events := make(chan metav1.WatchEvent, 100)
		a.watches[events] = true
		// Who has seen a version is told of what followed.
		if seen, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion")); seen > 0 {
			for _, s := range a.said {
				if s.version > seen {
					events <- s.event
				}
			}
		}
		a.mu.Unlock()
		flusher, _ := w.(http.Flusher)
		flusher.Flush()
		for {
			select {
			case <-r.Context().Done():
				a.mu.Lock()
				delete(a.watches, events)
				a.mu.Unlock()
				return
			case e, ok := <-events:
				if !ok {
					return
				}
				_ = enc.Encode(&e)
				flusher.Flush()
			}
		}
	}
}

func (a *podServer) list() *corev1.PodList {
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(a.version)}}
	for _, p := range a.pods {
		list.Items = append(list.Items, p)
	}
	return list
}

// say changes a pod and tells the watches. It returns what it told.
func (a *podServer) say(t *testing.T, event string, pod corev1.Pod) corev1.Pod {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	pod.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	pod.ResourceVersion = strconv.Itoa(a.version)
	if event == "DELETED" {
		delete(a.pods, pod.Name)
	} else {
		a.pods[pod.Name] = pod
	}
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	e := metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: raw}}
	a.said = append(a.said, saying{a.version, e})
	for w := range a.watches {
		w <- e
	}
	return pod
}

// hangUp ends all watches.
func (a *podServer) hangUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for w := range a.watches {
		close(w)
		delete(a.watches, w)
	}
}

func (a *podServer) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// ownNode is what a kubelet lists of the nodes.
var ownNode = metav1.ListOptions{FieldSelector: "metadata.name=" + nodeName}

// node is a node with a kubelet that lists and watches its pods as the real one
// does.
type node struct {
	*Bootstrap
	server *podServer
	store  *store.Store
	client kubernetes.Interface
	log    *logtest.Hook
	stop   func()

	mu   sync.Mutex
	sets []map[types.UID]corev1.Pod // every state that the kubelet was told
}

func newNode(t *testing.T, server *podServer, dir string, fresh bool) *node {
	t.Helper()
	logger, hook := logtest.NewNullLogger()
	n := &node{server: server, log: hook}
	var err error
	if n.store, _, err = store.Open(filepath.Join(dir, "pods")); err != nil {
		t.Fatal(err)
	}
	direct, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	n.Bootstrap, err = NewBootstrap(BootstrapOptions{
		Store: n.store, Dir: filepath.Join(dir, "checkpoint"), Fresh: fresh, Log: logrus.NewEntry(logger),
		Probe: func(ctx context.Context) error {
			_, err := direct.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{
		ContentType:        runtime.ContentTypeProtobuf,
		AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
	}}
	config.Wrap(server.road)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return New(Direct(n.Before(rt)), Options{})
	})
	if n.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := n.Component().Run(ctx, func() {}); err != nil {
			t.Errorf("the source ended: %v", err)
		}
	})
	lw := cache.NewListWatchFromClient(n.client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		fields.OneTermEqualSelector("spec.nodeName", nodeName))
	reflector := cache.NewReflector(lw, &corev1.Pod{}, cache.NewUndeltaStore(n.told, cache.MetaNamespaceKeyFunc), 0)
	wg.Go(func() { reflector.Run(ctx.Done()) })
	var once sync.Once
	n.stop = func() {
		once.Do(func() {
			cancel()
			server.CloseClientConnections()
			wg.Wait()
		})
	}
	t.Cleanup(n.stop)
	return n
}

func (n *node) told(objs []any) {
	set := map[types.UID]corev1.Pod{}
	for _, o := range objs {
		if pod, ok := o.(*corev1.Pod); ok {
			set[pod.UID] = *pod
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sets = append(n.sets, set)
}

// await waits until the kubelet's last state is as it should be.
func (n *node) await(t *testing.T, what string, ok func(set map[types.UID]corev1.Pod) bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		n.mu.Lock()
		var last map[types.UID]corev1.Pod
		told := len(n.sets)
		if told > 0 {
			last = n.sets[told-1]
		}
		n.mu.Unlock()
		if told > 0 && ok(last) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the kubelet was not told: %s; it has %v", what, podNames(last))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (n *node) awaitUIDs(t *testing.T, what string, want ...types.UID) {
	t.Helper()
	n.await(t, what, func(set map[types.UID]corev1.Pod) bool {
		for _, uid := range want {
			if _, ok := set[uid]; !ok {
				return false
			}
		}
		return len(set) == len(want)
	})
}

// neverLost fails the test if the kubelet was ever told to end a pod that it
// knew: a state without it after one with it.
func (n *node) neverLost(t *testing.T, uid types.UID) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	known := false
	for i, set := range n.sets {
		_, has := set[uid]
		if known && !has {
			t.Errorf("state %d of %d lacks pod %s: %v", i, len(n.sets), uid, podNames(set))
		}
		known = known || has
	}
	if !known {
		t.Errorf("the kubelet never knew pod %s", uid)
	}
}

func podNames(set map[types.UID]corev1.Pod) []string {
	var out []string
	for uid, pod := range set {
		out = append(out, fmt.Sprintf("%s/%s=%s@%s", pod.Namespace, pod.Name, uid, pod.ResourceVersion))
	}
	return out
}

func (n *node) logged(message string) bool {
	for _, e := range n.log.AllEntries() {
		if e.Message == message {
			return true
		}
	}
	return false
}

func newPod(name string, uid types.UID) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid,
			CreationTimestamp: metav1.Unix(1, 0)},
		Spec: corev1.PodSpec{NodeName: nodeName, Containers: []corev1.Container{{Name: "c", Image: "i:1"}}},
	}
}

// create puts a bootstrap pod into the store.
func (n *node) create(t *testing.T, name string, uid types.UID) *store.Entry {
	t.Helper()
	pod := newPod(name, uid)
	e, err := n.store.Create(&pod)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
