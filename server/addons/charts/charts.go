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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/addons/charts/archive"
)

// Name is the component's name.
const Name = "helm-controller"

const (
	// workers are how many charts are worked on at once: one whose hooks take long does not hold up the others.
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
	// Admin has the rights that charts get: those of an administrator of the cluster.
	Admin *rest.Config
	// Static is the directory of files of this server that charts can be.
	Static string
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

// controller does what HelmCharts say.
type controller struct {
	options  Options
	config   *rest.Config // what charts are applied with
	objects  dynamic.Interface
	core     kubernetes.Interface
	meta     metadata.Interface
	archives *archive.Getter
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]
	watches  *watches
	events   record.EventRecorder
	log      *logrus.Entry
}

// inSystem is the access to the space of the system, and to nothing else.
func inSystem(config *rest.Config, agent string) *rest.Config {
	config = rest.AddUserAgent(rest.CopyConfig(config), agent)
	config.Host += "/tenants/" + space.System
	return config
}

func (o Options) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.Retry == 0 {
		o.Retry = retryMin
	}
	watching := inSystem(o.Config, Name)
	own := rest.CopyConfig(watching)
	own.Timeout = requestTimeout
	c := &controller{options: o, config: inSystem(o.Admin, Name), log: o.Log,
		archives: archive.New(o.Static)}
	var err error
	if c.objects, err = dynamic.NewForConfig(own); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if c.core, err = kubernetes.NewForConfig(own); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if c.meta, err = metadata.NewForConfig(own); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := c.define(ctx); err != nil {
		return err
	}
	c.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](o.Retry, retryMax))
	defer c.queue.ShutDown()
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.core.CoreV1().Events("")})
	c.events = broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: Name})
	unbounded, err := metadata.NewForConfig(watching)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	c.watches = newWatches(ctx, unbounded, c.queue)
	if err := c.watches.charts(); err != nil {
		return err
	}
	var running sync.WaitGroup
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

// work does what is next; false ends the worker.
func (c *controller) work(ctx context.Context) bool {
	key, ended := c.queue.Get()
	if ended {
		return false
	}
	defer c.queue.Done(key)
	switch again, err := c.sync(ctx, key); {
	case ctx.Err() != nil:
	case err != nil:
		c.log.WithError(err).Warnf("HelmChart %s", key)
		c.queue.AddRateLimited(key)
	case again:
		c.queue.AddRateLimited(key)
	default:
		c.queue.Forget(key)
	}
	return true
}
