package charts

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/addons/charts/archive"
	"github.com/a4s-io/a4s/server/addons/charts/confined"
	"github.com/a4s-io/a4s/server/addons/charts/reconcile"
)

// Name is the component's name.
const Name = reconcile.ManagedBy

const (
	// workers are how many charts of the system are worked on at once: one whose hooks take long does not hold up the
	// others.
	workers = 4
	// retryMin and retryMax bound the pause after a failure, which doubles.
	retryMin = 5 * time.Second
	retryMax = 5 * time.Minute
	// requestTimeout bounds a request that is no watch: one that nobody answers must not hold a worker for ever.
	requestTimeout = time.Minute
)

// Options configure the component.
type Options struct {
	// Config is of the server itself: it reads HelmCharts and writes their status.
	Config *rest.Config
	// Admin has the rights that charts of the system get: those of an administrator of the cluster.
	Admin *rest.Config
	// Static is the directory of files of this server that charts of the system can be.
	Static string
	// Dialer connects to what a tenant names.
	Dialer func(tenant string) confined.Dial
	// ClientCA signs the certificate with which a chart of a tenant is applied.
	ClientCA func() (*pki.CA, error)
	// Retry is the pause after the first failure, retryMin if it is 0.
	Retry time.Duration
	Log   *logrus.Entry
}

// New returns the component. One server runs it.
func New(o Options) component.Component {
	return component.Component{Name: Name, Run: func(ctx context.Context, ready func()) error {
		ready()
		return o.run(ctx)
	}}
}

// queue has the HelmCharts that are to be looked at.
type queue = workqueue.TypedRateLimitingInterface[types.NamespacedName]

func (o Options) newQueue() queue {
	return workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](o.Retry, retryMax))
}

// controller does what HelmCharts of the system say.
type controller struct {
	reconcile.Reconciler
	queue   queue
	watches *watches
}

// inSpace is the access to the space of a tenant or of the system, and to nothing else.
func inSpace(config *rest.Config, tenant string) *rest.Config {
	return rest.AddUserAgent(tenantapi.InSpace(config, tenant), Name)
}

func (o Options) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.Retry == 0 {
		o.Retry = retryMin
	}
	c, err := o.newController(ctx)
	if err != nil {
		return err
	}
	defer c.queue.ShutDown()
	if err := c.define(ctx); err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.Core.CoreV1().Events("")})
	c.Events = broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: Name})
	if err := c.watches.charts(); err != nil {
		return err
	}
	ofTenants, err := o.newTenants(ctx)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(ofTenants.run)
	running.Go(c.watches.lookAtEnds)
	for range workers {
		running.Go(func() {
			for c.work(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	running.Wait()
	c.watches.wait()
	return nil
}

// newController makes what works on HelmCharts of the system until ctx ends.
func (o Options) newController(ctx context.Context) (*controller, error) {
	watching := inSpace(o.Config, space.System)
	own := rest.CopyConfig(watching)
	own.Timeout = requestTimeout
	c := &controller{queue: o.newQueue(), Reconciler: reconcile.Reconciler{Space: space.System,
		Rights: inSpace(o.Admin, space.System), Archives: archive.New(o.Static), Log: o.Log}}
	c.Tries = c.queue.NumRequeues
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if err := c.Reach(own, client); err != nil {
		return nil, err
	}
	unbounded, err := metadata.NewForConfig(watching)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	c.watches = newWatches(ctx, unbounded, c.queue, all)
	c.Watches = c.watches
	return c, nil
}

// work does what is next; false ends the worker.
func (c *controller) work(ctx context.Context) bool {
	key, ended := c.queue.Get()
	if ended {
		return false
	}
	defer c.queue.Done(key)
	next, err := c.Reconcile(ctx, key)
	if ctx.Err() != nil {
		return true
	}
	if err != nil {
		c.Log.WithError(err).Warnf("HelmChart %s", key)
	}
	requeue(c.queue, key, next, err)
	return true
}

// requeue has a HelmChart looked at again when that is due.
func requeue(q queue, key types.NamespacedName, next reconcile.Next, err error) {
	switch {
	case err != nil || next == reconcile.Again:
		q.AddRateLimited(key)
	case next == reconcile.Soon:
		q.AddAfter(key, time.Second)
	case next == reconcile.Later:
		q.Forget(key)
		q.AddAfter(key, retryMax)
	default:
		q.Forget(key)
	}
}
