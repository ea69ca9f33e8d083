package merge

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
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

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/tests/partitiontest"
)

const node1 = "node1"

// uplink serves merged collections and nothing else.
type uplink struct{ *Collections }

func (u uplink) Send(r *origin.Request) (*http.Response, error) {
	if !u.Has(r) {
		return refuse(r, http.StatusNotFound, metav1.StatusReasonNotFound, "no merged collection")
	}
	return u.Serve(r)
}

func (uplink) CloseIdleConnections() {}

// open returns Collections that begin with the servers, the first of which is home.
// Partitions that hang are waited for very short.
func open(t *testing.T, dir string, fresh bool, servers ...*partitiontest.Server) *Collections {
	t.Helper()
	c := openNone(t, dir, fresh)
	var all []origin.Partition
	for i, s := range servers {
		all = append(all, s.Partition(i == 0))
	}
	if err := c.Begin(all); err != nil {
		t.Fatal(err)
	}
	return c
}

func openNone(t *testing.T, dir string, fresh bool) *Collections {
	t.Helper()
	logger, _ := logtest.NewNullLogger()
	patience := time.Minute // none hangs
	c, err := New(Options{NodeName: node1, Dir: dir, Fresh: fresh, Patience: patience, Log: logrus.NewEntry(logger)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (c *Collections) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://origin", QPS: -1,
		Transport: origin.New(uplink{c}, origin.Options{}),
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf,
			AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

var ownPods = metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(fieldNode, node1).String()}

// pods lists the pods by their names on the node.
func (c *Collections) pods(t *testing.T) ([]string, error) {
	t.Helper()
	list, err := c.client(t).CoreV1().Pods("").List(t.Context(), ownPods)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, p := range list.Items {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	slices.Sort(names)
	return names, nil
}

// await waits until the node has these pods.
func (c *Collections) await(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	var err error
	eventually(t, func() bool {
		got, err = c.pods(t)
		return err == nil && slices.Equal(got, want)
	}, func() any { return []any{got, err, "want", want} })
}

func eventually(t *testing.T, ok func() bool, state func() any) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come: %v", state())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// kubelet lists and watches its pods as the real one does.
type kubelet struct {
	mu   sync.Mutex
	last map[types.NamespacedName]types.UID
}

func (c *Collections) kubelet(t *testing.T) *kubelet {
	t.Helper()
	k := &kubelet{}
	ctx, cancel := context.WithCancel(context.Background())
	lw := cache.NewListWatchFromClient(c.client(t).CoreV1().RESTClient(), "pods", "",
		fields.OneTermEqualSelector(fieldNode, node1))
	reflector := cache.NewReflector(lw, &corev1.Pod{}, cache.NewUndeltaStore(k.told, cache.MetaNamespaceKeyFunc), 0)
	var wg sync.WaitGroup
	wg.Go(func() { reflector.Run(ctx.Done()) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return k
}

func (k *kubelet) told(objs []any) {
	last := map[types.NamespacedName]types.UID{}
	for _, obj := range objs {
		if p, ok := obj.(*corev1.Pod); ok {
			last[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = p.UID
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = last
}

func (k *kubelet) has() map[types.NamespacedName]types.UID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.last)
}
