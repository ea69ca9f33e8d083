package notready

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	v1core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	controllernode "k8s.io/kubernetes/pkg/controller/util/node"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
)

// Name is the name of the component.
const Name = "not-ready-marker"

const (
	// mostUnknown is the part of the nodes of a resource partition that are unknown, in per
	// cent, above which kubelets are asked before their pods are marked; upstream's for a zone.
	mostUnknown = 55
	// heardAgain is for how long a resource partition that was silent may take to hear of its
	// nodes again: three reports of a kubelet.
	heardAgain = 30 * time.Second
	// again is how often the pods of a node that is not ready are looked at: there may be
	// new ones.
	again = 20 * time.Second
	// markers is how many nodes are looked at at a time, each of which may take a few seconds
	// to find out whether its kubelet answers; firstRetry and lastRetry are how long one waits
	// whose pods could not be marked.
	markers               = 16
	firstRetry, lastRetry = 100 * time.Millisecond, 30 * time.Second
	// requestTimeout bounds what is done about one node.
	requestTimeout = 30 * time.Second
)

// Options configure the marker.
type Options struct {
	// Client reads nodes and pods, and writes the status of pods and events.
	Client kubernetes.Interface
	// Silent is when a resource partition did not answer last. It may not have heard of its nodes
	// then, so those that are unknown have to be so for longer.
	Silent func(partition string) time.Time
	// Reached asks the kubelet of a node, and returns an error if it does not answer.
	Reached func(context.Context, *corev1.Node) error
	Log     *logrus.Entry
}

// marker marks pods.
type marker struct {
	o        Options
	recorder record.EventRecorder
	queue    workqueue.TypedRateLimitingInterface[string]

	mu sync.Mutex
	// nodes are the copies, by resource partition and name.
	nodes map[string]map[string]state
	of    map[string]string // resource partition of a node
}

// state is what a node says of its readiness. A node that says nothing is unknown.
type state struct{ ready, unknown bool }

func stateOf(n *corev1.Node) state {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return state{ready: c.Status == corev1.ConditionTrue, unknown: c.Status == corev1.ConditionUnknown}
		}
	}
	return state{unknown: true}
}

// Component marks pods while this server leads.
func Component(o Options) component.Component {
	return component.Component{Name: Name,
		Run: func(ctx context.Context, ready func()) error { return run(ctx, o, ready) }}
}

func run(ctx context.Context, o Options, ready func()) error {
	ready()
	events := record.NewBroadcaster(record.WithContext(ctx))
	defer events.Shutdown()
	events.StartRecordingToSink(&v1core.EventSinkImpl{Interface: o.Client.CoreV1().Events("")})
	m := &marker{o: o, nodes: map[string]map[string]state{}, of: map[string]string{},
		recorder: events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Name}),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry))}
	return m.run(ctx)
}

func (m *marker) run(ctx context.Context) error {
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewFilteredListWatchFromClient(m.o.Client.CoreV1().RESTClient(), "nodes", "",
			func(o *metav1.ListOptions) { o.LabelSelector = nodecopies.Label }),
		ObjectType: &corev1.Node{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: m.changed, UpdateFunc: func(_, obj any) { m.changed(obj) }, DeleteFunc: m.deleted},
		Transform: slim,
	})
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { controller.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), controller.HasSynced) {
		for range markers {
			running.Go(func() {
				for m.next(ctx) {
				}
			})
		}
	}
	<-ctx.Done()
	m.queue.ShutDown()
	return nil
}

// slim keeps what counts of a node.
func slim(obj any) (any, error) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion,
		Labels: map[string]string{nodecopies.Label: n.Labels[nodecopies.Label]}}}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return out, nil
}

func (m *marker) changed(obj any) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return
	}
	m.set(n.Name, n.Labels[nodecopies.Label], stateOf(n))
}

func (m *marker) deleted(obj any) {
	if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		m.set(name, "", state{})
	}
}

// set takes note of a node; one without a resource partition is gone.
func (m *marker) set(name, partition string, now state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.nodes[m.of[name]], name)
	delete(m.of, name)
	if partition == "" {
		return
	}
	if m.nodes[partition] == nil {
		m.nodes[partition] = map[string]state{}
	}
	m.nodes[partition][name], m.of[name] = now, partition
	if !now.ready {
		m.queue.Add(name)
	}
}

// mostAreUnknown reports whether so many nodes of a partition are unknown that it may be the way
// between them and its servers.
func (m *marker) mostAreUnknown(partition string) bool {
	nodes := m.nodes[partition]
	unknown := 0
	for _, s := range nodes {
		if s.unknown {
			unknown++
		}
	}
	return unknown*100 > mostUnknown*len(nodes)
}

// due reports whether the pods of a node are to be marked now, or it is to be looked at
// later, and whether its kubelet is asked before.
func (m *marker) due(name string) (due, later, ask bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	partition, ok := m.of[name]
	s := m.nodes[partition][name]
	if !ok || s.ready {
		return false, false, false
	}
	if s.unknown && time.Since(m.o.Silent(partition)) < heardAgain {
		return false, true, false
	}
	return true, true, s.unknown && m.mostAreUnknown(partition)
}

func (m *marker) next(ctx context.Context) bool {
	name, end := m.queue.Get()
	if end {
		return false
	}
	defer m.queue.Done(name)
	due, later, ask := m.due(name)
	if !later {
		m.queue.Forget(name)
		return true
	}
	if due {
		limited, cancel := context.WithTimeout(ctx, requestTimeout)
		err := m.mark(limited, name, ask)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				m.o.Log.WithError(err).WithField("node", name).Info("cannot mark pods not ready; it is tried again")
			}
			m.queue.AddRateLimited(name)
			return true
		}
	}
	m.queue.Forget(name)
	m.queue.AddAfter(name, again)
	return true
}

// mark marks the pods of a node that say that they are ready. With ask none are marked of
// one whose kubelet answers.
func (m *marker) mark(ctx context.Context, name string, ask bool) error {
	// From the cache of the API server, which knows pods by their nodes.
	list, err := m.o.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0",
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", name).String()})
	if err != nil {
		return fmt.Errorf("listing the pods of the node: %w", err)
	}
	var ready []*corev1.Pod
	for i := range list.Items {
		for _, c := range list.Items[i].Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				ready = append(ready, &list.Items[i])
			}
		}
	}
	if ask && len(ready) > 0 {
		n, err := m.o.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
		if err != nil {
			return fmt.Errorf("reading where the kubelet is: %w", err)
		}
		if err := m.o.Reached(ctx, n); err == nil {
			return nil
		}
	}
	return controllernode.MarkPodsNotReady(ctx, m.o.Client, m.recorder, ready, name)
}
