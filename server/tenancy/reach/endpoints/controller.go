package endpoints

//lint:file-ignore SA1019 Endpoints are deprecated, and tenants still write them

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/tenancy/reach/inside"
)

// Name is the name of the component.
const Name = "tenant-endpoints"

const (
	workers = 4
	// upstreams is how long upstream's controllers have for what is theirs.
	upstreams = 2 * time.Second
	// byAddress is the index of everything by addresses.
	byAddress = "address"
)

// Options configure the controller.
type Options struct {
	// Client has all rights.
	Client kubernetes.Interface
	// Inside are the addresses of the cluster.
	Inside *inside.Cluster
	// Pool is where informers share what they keep with others.
	Pool *interning.Pool
	Log  *logrus.Entry
}

// kind is what has addresses.
type kind int

const (
	slice kind = iota
	old        // Endpoints
)

// key is one object to look at.
type key struct {
	kind            kind
	namespace, name string
	waited          bool // upstream's controllers had their time
}

func (k key) String() string {
	what := map[kind]string{slice: "EndpointSlice", old: "Endpoints"}[k.kind]
	return what + " " + k.namespace + "/" + k.name
}

type controller struct {
	Options
	queue workqueue.TypedRateLimitingInterface[key]
	pods  cache.Indexer
	nodes cache.Indexer
	kinds map[kind]cache.Indexer

	services corelisters.ServiceLister
}

// New returns the component. One server runs it.
func New(o Options) component.Component {
	if o.Log == nil {
		o.Log = logrus.WithField("component", Name)
	}
	return component.Component{Name: Name, Run: func(ctx context.Context, ready func()) error {
		ready()
		return o.run(ctx)
	}}
}

func (o Options) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(o.Client, 0,
		informers.WithTransform(trimmer(o.Pool)))
	defer factory.Shutdown()
	defer cancel() // before Shutdown, which waits
	c := &controller{
		Options: o,
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[key]()),
		kinds:   map[kind]cache.Indexer{},

		services: factory.Core().V1().Services().Lister(),
	}
	pods, slices, olds := factory.Core().V1().Pods().Informer(), factory.Discovery().V1().EndpointSlices().Informer(),
		factory.Core().V1().Endpoints().Informer()
	nodes := factory.Core().V1().Nodes().Informer()
	c.pods, c.nodes = pods.GetIndexer(), nodes.GetIndexer()
	c.kinds[slice], c.kinds[old] = slices.GetIndexer(), olds.GetIndexer()
	synced := []cache.InformerSynced{factory.Core().V1().Services().Informer().HasSynced}
	for _, w := range []struct {
		informer cache.SharedIndexInformer
		changed  func(obj any)
	}{
		{pods, c.ownerChanged},
		{nodes, c.ownerChanged},
		{slices, c.sliceChanged},
		{olds, func(obj any) { c.add(old, obj) }},
	} {
		if err := w.informer.AddIndexers(cache.Indexers{byAddress: addressesOf}); err != nil {
			return fmt.Errorf("indexing endpoints by address: %w", err)
		}
		handler, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: w.changed,
			UpdateFunc: func(before, obj any) {
				if !same(before, obj) {
					w.changed(obj)
					w.changed(before) // the addresses that a pod had until now
				}
			},
			DeleteFunc: w.changed,
		})
		if err != nil {
			return fmt.Errorf("watching endpoints and pods: %w", err)
		}
		synced = append(synced, handler.HasSynced)
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // ctx ended
	}
	for changed := c.Inside.Changes(); c.Inside.Known() != nil; changed = c.Inside.Changes() {
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { c.work(ctx) })
	}
	c.follow(ctx)
	c.queue.ShutDown()
	wg.Wait()
	return nil
}

// follow has everything looked at whenever the cluster changes, until ctx ends.
func (c *controller) follow(ctx context.Context) {
	for {
		changed := c.Inside.Changes()
		for k, indexer := range c.kinds {
			for _, o := range indexer.List() {
				c.add(k, o)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// addressesOf are the addresses in what trimmer left.
func addressesOf(obj any) (out []string, err error) {
	switch o := obj.(type) {
	case *corev1.Pod:
		return Addresses(o), nil
	case *corev1.Node:
		return OfNodes(o)
	case *discoveryv1.EndpointSlice:
		for _, e := range o.Endpoints {
			out = append(out, e.Addresses...)
		}
	case *corev1.Endpoints:
		for _, s := range o.Subsets {
			for _, a := range s.Addresses {
				out = append(out, a.IP)
			}
		}
	}
	return out, nil
}

// add has an object looked at.
func (c *controller) add(k kind, obj any) {
	if late, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = late.Obj
	}
	if addresses, err := addressesOf(obj); err != nil || len(addresses) == 0 {
		return
	}
	if o, ok := obj.(metav1.Object); ok && !ofSystem(o.GetNamespace()) {
		c.queue.Add(key{kind: k, namespace: o.GetNamespace(), name: o.GetName()})
	}
}

// sliceChanged has a slice looked at, or what names a server that it tells of.
func (c *controller) sliceChanged(obj any) {
	if late, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = late.Obj
	}
	if o, ok := obj.(*discoveryv1.EndpointSlice); ok && ofSystem(o.Namespace) {
		c.ownerChanged(obj)
		return
	}
	c.add(slice, obj)
}

// ownerChanged has everything looked at that names an address of a pod, a node or a server.
func (c *controller) ownerChanged(obj any) {
	if late, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = late.Obj
	}
	addresses, err := addressesOf(obj)
	if err != nil {
		c.Log.WithError(err).Error("what has addresses cannot be read") // it never fails
	}
	for _, address := range addresses {
		for k, indexer := range c.kinds {
			found, err := indexer.ByIndex(byAddress, address)
			if err != nil {
				c.Log.WithError(err).Error("the index of addresses is missing") // it was made above
			}
			for _, o := range found {
				c.add(k, o)
			}
		}
	}
}

func (c *controller) work(ctx context.Context) {
	for {
		k, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		switch again, err := c.look(ctx, k); {
		case err != nil && ctx.Err() == nil:
			if !apierrors.IsConflict(err) {
				c.Log.WithError(err).
					Warnf("%s may have addresses that are no longer its tenant's; this is tried again", k)
			}
			c.queue.AddRateLimited(k)
		case again > 0:
			c.queue.Forget(k)
			c.queue.AddAfter(key{kind: k.kind, namespace: k.namespace, name: k.name, waited: true}, again)
		default:
			c.queue.Forget(k)
		}
		c.queue.Done(k)
	}
}

// look takes off an object what is not its tenant's. It returns how much later
// to look again.
func (c *controller) look(ctx context.Context, k key) (again time.Duration, err error) {
	obj, ok, err := c.kinds[k.kind].GetByKey(k.namespace + "/" + k.name)
	if err != nil || !ok {
		return 0, err
	}
	tenant, _ := space.SplitNamespace(k.namespace)
	addresses, err := addressesOf(obj)
	if err != nil {
		return 0, err
	}
	counts, byUpstream := Living, c.byUpstream(k, obj)
	if byUpstream {
		counts = Running
	}
	suspect, err := c.lost(tenant, addresses, counts, byUpstream)
	if err != nil || len(suspect) == 0 {
		return 0, err
	}
	if byUpstream && !k.waited {
		return upstreams, nil
	}
	gone := map[string]bool{}
	for _, address := range suspect {
		pods, err := c.Client.CoreV1().Pods("").List(ctx,
			metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("status.podIP", address).String()})
		if err != nil {
			return 0, fmt.Errorf("looking for the pod at %s: %w", address, err)
		}
		var claims []*corev1.Pod
		for i := range pods.Items {
			claims = append(claims, &pods.Items[i])
		}
		if !Holds(tenant, claims, counts) {
			gone[address] = true
		}
	}
	if len(gone) == 0 {
		return 0, nil
	}
	switch err := c.without(ctx, k, gone); {
	case apierrors.IsNotFound(err):
		return 0, nil
	case err != nil:
		return 0, err
	}
	c.Log.WithField("tenant", tenant).Infof("took %s off %s: it is inside the cluster, and no pod of the tenant's",
		strings.Join(slices.Sorted(maps.Keys(gone)), ", "), k)
	return 0, nil
}

// lost are the addresses of the cluster that are not the tenant's as far as is
// known. Those of nodes in what upstream keeps up to date are of pods in the
// network of the node, which an administrator let the tenant have.
func (c *controller) lost(
	tenant string, addresses []string, counts func(*corev1.Pod) bool, byUpstream bool,
) ([]string, error) {
	var out []string
	for _, address := range addresses {
		pod, machine, err := c.inside(address)
		if err != nil {
			return nil, err
		}
		if !pod && (!machine || byUpstream) {
			continue
		}
		held, err := Held(tenant, c.pods, byAddress, address, counts)
		if err != nil {
			return nil, err
		}
		if !held {
			out = append(out, address)
		}
	}
	return out, nil
}

// inside says what has an address in the cluster: a pod or a Service, or a node
// or a server.
func (c *controller) inside(address string) (pod, machine bool, err error) {
	ip, ok := inside.Parse(address)
	if !ok {
		return false, false, nil
	}
	if pod, err = c.Inside.Range(ip); pod || err != nil {
		return pod, false, err
	}
	if machine, err = c.Inside.Server(ip); machine || err != nil {
		return false, machine, err
	}
	nodes, err := c.nodes.IndexKeys(byAddress, address)
	if err != nil {
		return false, false, fmt.Errorf("looking for the node at %s: %w", address, err)
	}
	if len(nodes) > 0 {
		return false, true, nil
	}
	found, err := c.kinds[slice].ByIndex(byAddress, address)
	if err != nil {
		return false, false, fmt.Errorf("looking for the server at %s: %w", address, err)
	}
	for _, obj := range found {
		if o, ok := obj.(*discoveryv1.EndpointSlice); ok && ofSystem(o.Namespace) {
			return false, true, nil // the only ones of the system that have any here
		}
	}
	return false, false, nil
}

// byUpstream says what a controller of upstream brings up to date from the
// pods that a Service selects. The label alone says nothing: tenants write it.
func (c *controller) byUpstream(k key, obj any) bool {
	service := k.name
	if o, ok := obj.(*discoveryv1.EndpointSlice); ok {
		service = o.Labels[discoveryv1.LabelServiceName]
	}
	if service == "" {
		return false
	}
	found, err := c.services.Services(k.namespace).Get(service)
	return err == nil && len(found.Spec.Selector) > 0
}
