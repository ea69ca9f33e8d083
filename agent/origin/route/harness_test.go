package route

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/tests/partitiontest"
)

const nodeName = "node1"

// directory has the partitions of a test.
type directory struct {
	mu      sync.Mutex
	all     []origin.Partition
	changed chan struct{}
}

func newDirectory(all ...origin.Partition) *directory {
	return &directory{all: all, changed: make(chan struct{})}
}

func (d *directory) Current() ([]origin.Partition, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all, d.changed
}

func (d *directory) set(all ...origin.Partition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = all
	close(d.changed)
	d.changed = make(chan struct{})
}

// node is a node with a router.
type node struct {
	*Router
	log *logtest.Hook
}

func newNode(t *testing.T, o Options) *node {
	t.Helper()
	n, _ := runNode(t, o)
	return n
}

// startNode starts a node with its kubelet; stop ends both.
func startNode(t *testing.T, o Options) (n *node, k *kubelet, stop func()) {
	t.Helper()
	n, stopNode := runNode(t, o)
	k, stopKubelet := n.runKubelet(t)
	return n, k, func() {
		stopKubelet()
		stopNode()
	}
}

func runNode(t *testing.T, o Options) (n *node, stop func()) {
	t.Helper()
	logger, hook := logtest.NewNullLogger()
	o.NodeName, o.Log = nodeName, logrus.NewEntry(logger)
	if o.Limit == 0 {
		o.Limit = time.Minute // no partition hangs
	}
	if o.ProbeEvery == 0 {
		o.ProbeEvery = time.Millisecond
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Component().Run(ctx, func() { close(ready) }); err != nil {
			t.Errorf("the router ended: %v", err)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	<-ready
	return &node{r, hook}, stop
}

// client works with the node as the kubelet does.
func (n *node) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://origin", QPS: -1,
		Transport: origin.New(n, origin.Options{}),
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf,
			AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// cluster has two tenant partitions and a resource partition of its own. Tenant t1 is
// in the home partition and t2 in tp2; both have a pod on the node.
type cluster struct {
	*node
	home, tp2, rp *partitiontest.Server
	directory     *directory
	api           kubernetes.Interface
}

func newCluster(t *testing.T, o Options) *cluster {
	t.Helper()
	c := &cluster{home: partitiontest.New(t, "main"), tp2: partitiontest.New(t, "tp2"), rp: partitiontest.New(t, "rp")}
	c.home.Put(t, "pods", pod("default.t1", "web", "1"))
	c.tp2.Put(t, "pods", pod("default.t2", "web", "2"))
	c.home.Put(t, "pods", pod("kube-system", "agent", "3"))
	c.tp2.Put(t, "pods", pod("kube-system", "agent", "4"))
	c.directory = newDirectory(c.home.Partition(true), c.tp2.Partition(false))
	o.Partitions, o.ResourcePartition, o.Fresh = c.directory, c.rp.Transport(), true
	c.node = newNode(t, o)
	c.api = c.node.client(t)
	eventually(t, func() bool { return len(podsOf(t, c.api)) == 4 }, func() any { return podsOf(t, c.api) })
	return c
}

func pod(namespace, name string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid},
		Spec: corev1.PodSpec{NodeName: nodeName}}
}

var ownPods = metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeName}

// podsOf lists the pods of the node, nil if it cannot.
func podsOf(t *testing.T, api kubernetes.Interface) map[string]types.UID {
	t.Helper()
	list, err := api.CoreV1().Pods("").List(t.Context(), ownPods)
	if err != nil {
		return nil
	}
	out := map[string]types.UID{}
	for _, p := range list.Items {
		out[p.Namespace+"/"+p.Name] = p.UID
	}
	return out
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

// one returns the only request of a method and path that a server got.
func one(t *testing.T, s *partitiontest.Server, method, path string) partitiontest.Asked {
	t.Helper()
	asked := s.Asked(method, path)
	if len(asked) != 1 || asked[0].Path != path {
		t.Fatalf("%s %s came as %v", method, path, asked)
	}
	return asked[0]
}

// ok answers with an object.
func ok(obj runtime.Object) func(partitiontest.Asked) (int, runtime.Object) {
	return func(partitiontest.Asked) (int, runtime.Object) { return http.StatusOK, obj }
}
