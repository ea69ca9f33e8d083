package servicelb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	servicecontroller "k8s.io/cloud-provider/controllers/service"
	"k8s.io/cloud-provider/service/helpers"
	controllermetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// Name is the name of the component.
const Name = "servicelb"

const (
	// workers of upstream's controller; each asks for a decision on all
	// Services.
	workers = 2
	// gap is the pause between two rounds of our own loop, and retry that
	// after a failure.
	gap   = 200 * time.Millisecond
	retry = 2 * time.Second
)

// Options configure the load balancer.
type Options struct {
	// Client has all rights.
	Client kubernetes.Interface
	// Rules are the ports that no Service gets.
	Rules *Rules
	// Partition is that of the Services. It has the nodes without a label that says otherwise.
	Partition string
	// Pool is where informers share what they keep with others.
	Pool *interning.Pool
	Log  *logrus.Entry
}

// New returns the component. One server runs it.
func New(o Options) component.Component {
	return component.Component{Name: Name, Run: func(ctx context.Context, ready func()) error {
		ready()
		return o.run(ctx)
	}}
}

func (o Options) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(o.Client, 0, informers.WithTransform(o.trim))
	defer factory.Shutdown()
	services, nodes, endpoints := factory.Core().V1().Services(), factory.Core().V1().Nodes(),
		factory.Discovery().V1().EndpointSlices()
	b := &balancer{services: services.Lister(), nodes: nodes.Lister(), slices: endpoints.Lister(), rules: o.Rules,
		partition: o.Partition}
	controller, err := servicecontroller.New(b, o.Client, services, quietNodes{nodes}, Name, nil)
	if err != nil {
		cancel()
		return fmt.Errorf("making the service controller: %w", err)
	}
	dirty := make(chan struct{}, 1)
	mark := func(any) {
		select {
		case dirty <- struct{}{}:
		default: // marked already
		}
	}
	var synced []cache.InformerSynced
	for _, informer := range []cache.SharedIndexInformer{services.Informer(), nodes.Informer(), endpoints.Informer()} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: mark,
			UpdateFunc: func(_, obj any) { mark(obj) }, DeleteFunc: mark}); err != nil {
			cancel()
			return fmt.Errorf("watching what load balancers depend on: %w", err)
		}
		synced = append(synced, informer.HasSynced)
	}
	factory.StartWithContext(ctx)
	done := make(chan struct{})
	defer func() { cancel(); <-done }() // before Shutdown, which waits
	go func() {
		defer close(done)
		if cache.WaitForCacheSync(ctx.Done(), synced...) {
			controller.Run(ctx, workers, controllermetrics.NewControllerManagerMetrics(Name))
		}
	}()
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // ctx ended
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: o.Client.CoreV1().Events("")})
	defer broadcaster.Shutdown()
	r := &refresher{balancer: b, client: o.Client,
		events: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Name})}
	for {
		pause := gap
		if err := r.refresh(); err != nil {
			o.Log.WithError(err).Warn("the addresses of Services are not all up to date; this is tried again")
			pause = retry
			mark(nil)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		select {
		case <-dirty:
		case <-ctx.Done():
			return nil
		}
	}
}

// quietNodes tells upstream's controller nothing of changes: it would only ask
// the balancer to update what the refresher does, with an unguarded look at
// Services that are just being worked on.
type quietNodes struct{ coreinformers.NodeInformer }

// Informer implements coreinformers.NodeInformer.
func (q quietNodes) Informer() cache.SharedIndexInformer {
	return quietInformer{q.NodeInformer.Informer()}
}

type quietInformer struct{ cache.SharedIndexInformer }

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (quietInformer) AddEventHandlerWithResyncPeriod(
	cache.ResourceEventHandler, time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}

// refresher writes what changes though a Service itself does not.
type refresher struct {
	balancer *balancer
	client   kubernetes.Interface
	events   record.EventRecorder
}

func (r *refresher) refresh() error {
	decided, services, err := r.balancer.decide()
	if err != nil {
		return err
	}
	var errs []error
	for _, service := range services {
		o, ok := decided[service.UID]
		// Upstream's controller puts the finalizer on a Service before it gets
		// anything, and is the first to act on it.
		if !ok || !helpers.HasLBFinalizer(service) ||
			equality.Semantic.DeepEqual(service.Status.LoadBalancer.Ingress, o.ingress) {
			continue
		}
		updated := service.DeepCopy()
		updated.Status.LoadBalancer = corev1.LoadBalancerStatus{Ingress: o.ingress}
		switch _, err := helpers.PatchService(r.client.CoreV1(), service, updated); {
		case apierrors.IsNotFound(err):
		case err != nil:
			errs = append(errs, fmt.Errorf("service %s/%s: %w", service.Namespace, service.Name, err))
		case o.refused != "":
			r.events.Event(service, corev1.EventTypeWarning, "LoadBalancerLost", o.refused)
		case len(o.ingress) == 0:
			r.events.Event(service, corev1.EventTypeWarning, "UnAvailableLoadBalancer",
				"no node is ready to take traffic for this Service")
		default:
			r.events.Event(service, corev1.EventTypeNormal, "UpdatedLoadBalancer",
				"the addresses are those of the nodes that are ready now")
		}
	}
	return errors.Join(errs...)
}

// trim keeps what is read here. Services stay whole: upstream writes those with
// load balancers back, and the others are those that other caches have.
func (o Options) trim(obj any) (any, error) {
	switch k := obj.(type) {
	case *corev1.Node:
		obj = TrimNode(k)
	case *discoveryv1.EndpointSlice:
		kept := &discoveryv1.EndpointSlice{
			TypeMeta: k.TypeMeta,
			ObjectMeta: metav1.ObjectMeta{
				Namespace: k.Namespace, Name: k.Name, UID: k.UID, ResourceVersion: k.ResourceVersion,
				Labels: map[string]string{discoveryv1.LabelServiceName: k.Labels[discoveryv1.LabelServiceName]},
			},
			AddressType: k.AddressType,
		}
		for _, e := range k.Endpoints {
			kept.Endpoints = append(kept.Endpoints, discoveryv1.Endpoint{NodeName: e.NodeName,
				Conditions: discoveryv1.EndpointConditions{Ready: e.Conditions.Ready}})
		}
		obj = kept
	}
	return o.Pool.Transform(obj)
}
