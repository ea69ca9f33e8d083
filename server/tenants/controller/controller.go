package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/internal/tenantclient"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// Name is the component's name.
const Name = "tenant-controller"

const (
	// workers is how many tenants are made or emptied at a time.
	workers = 8
	// qps keeps a storm of deletions from taking the whole API.
	qps, burst = 500, 1000
	// A tenant that is not done is looked at again after minWait, and then
	// ever less often.
	minWait, maxWait = 50 * time.Millisecond, 2 * time.Second
)

// Options configures the controller.
type Options struct {
	// Config reaches the API as a system user with all rights.
	Config *rest.Config
	// ClusterDomain is the domain of the cluster's services.
	ClusterDomain string
	// DefaultTenant is made at the start if it is missing; empty means none.
	DefaultTenant string
	Log           *logrus.Entry
}

// New returns the supervised controller. It is ready when the tenants exist
// that every server has.
func New(o Options) component.Component {
	return component.Component{Name: Name, Run: func(ctx context.Context, ready func()) error { return run(ctx, o, ready) }}
}

type controller struct {
	log     *logrus.Entry
	domain  string
	config  *rest.Config // with protobuf, and one rate limit for all clients
	http    *http.Client
	client  kubernetes.Interface
	tenants *tenantclient.Client
	kinds   *kinds.Table
	queue   workqueue.TypedRateLimitingInterface[string]
	store   cache.Store
}

func newController(o Options) (*controller, error) {
	c := &controller{log: o.Log, domain: o.ClusterDomain, config: rest.CopyConfig(o.Config), kinds: kinds.New()}
	c.config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(qps, burst)
	c.config.ContentType, c.config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	var err error
	if c.http, err = rest.HTTPClientFor(c.config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if c.client, err = kubernetes.NewForConfigAndClient(c.config, c.http); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if c.tenants, err = tenantclient.New(c.config, c.http); err != nil {
		return nil, err
	}
	c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](minWait, maxWait))
	return c, nil
}

func run(ctx context.Context, o Options, ready func()) error {
	c, err := newController(o)
	if err != nil {
		return err
	}
	defer c.queue.ShutDown()
	if err := c.ensureTenants(ctx, o.DefaultTenant); err != nil {
		return err
	}
	var informer cache.Controller
	c.store, informer = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: tenantclient.ListWatch(c.tenants),
		ObjectType:    &tenantapi.Tenant{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: c.enqueue,
			UpdateFunc: func(old, obj any) {
				// Not for every count that a deletion reports.
				if stateOf(old) != stateOf(obj) {
					c.enqueue(obj)
				}
			},
		},
	})
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	for range workers {
		running.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	running.Go(func() {
		if err := c.findDamaged(ctx); err != nil && ctx.Err() == nil {
			c.log.WithError(err).Warn("spaces without a namespace called default were not looked for")
		}
	})
	ready()
	<-ctx.Done()
	c.queue.ShutDown() // before the wait for the workers
	return nil
}

// ensureTenants makes the tenants that every server has.
func (c *controller) ensureTenants(ctx context.Context, names ...string) error {
	for _, name := range append([]string{space.System}, names...) {
		if name == "" {
			continue
		}
		_, err := c.tenants.Create(ctx, &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		switch {
		case err == nil:
			c.log.WithField("tenant", name).Info("tenant made because every server has it")
		case !apierrors.IsAlreadyExists(err):
			return fmt.Errorf("making the tenant %s: %w", name, err)
		}
	}
	return nil
}

func (c *controller) enqueue(obj any) { c.queue.Add(obj.(*tenantapi.Tenant).Name) }

// state is what reconcile decides by.
type state struct{ deleted, held, ready bool }

func stateOf(obj any) state {
	t := obj.(*tenantapi.Tenant)
	return state{
		deleted: !t.DeletionTimestamp.IsZero(),
		held:    slices.Contains(t.Finalizers, tenantapi.Finalizer),
		ready:   meta.IsStatusConditionTrue(t.Status.Conditions, tenantapi.SpaceReady),
	}
}

// next works on one tenant. It returns false when there will be no more.
func (c *controller) next(ctx context.Context) bool {
	name, stop := c.queue.Get()
	if stop {
		return false
	}
	defer c.queue.Done(name)
	done, err := c.reconcile(ctx, name)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil && !apierrors.IsConflict(err):
		level := logrus.WarnLevel
		if c.queue.NumRequeues(name) > 0 {
			level = logrus.DebugLevel // it stands in the conditions too
		}
		c.log.WithField("tenant", name).WithError(err).Log(level, "will try again")
		fallthrough
	case !done:
		c.queue.AddRateLimited(name)
	default:
		c.queue.Forget(name)
	}
	return true
}

// reconcile brings one space into the state that its Tenant says. It is not
// done if it has to be called again without a change of the Tenant.
func (c *controller) reconcile(ctx context.Context, name string) (done bool, err error) {
	obj, exists, err := c.store.GetByKey(name)
	if err != nil || !exists || name == space.System {
		return err == nil, err // the system space was there before us
	}
	t := obj.(*tenantapi.Tenant).DeepCopy()
	log := c.log.WithField("tenant", name)
	switch is := stateOf(t); {
	case is.deleted && is.held:
		return c.terminate(ctx, t, log)
	case is.deleted, is.ready:
		return true, nil // held by others, or made
	}
	if err := c.makeSpace(ctx, name); err != nil {
		return false, errors.Join(err, c.report(ctx, t, metav1.Condition{
			Type: tenantapi.SpaceReady, Status: metav1.ConditionFalse, Reason: "NotMade", Message: err.Error(),
		}))
	}
	err = c.report(ctx, t, metav1.Condition{
		Type: tenantapi.SpaceReady, Status: metav1.ConditionTrue, Reason: "Made", Message: "the default objects of the space exist",
	})
	if err != nil {
		return false, err
	}
	log.Info("space is ready")
	return true, nil
}

// report writes a condition unless it stands there already.
func (c *controller) report(ctx context.Context, t *tenantapi.Tenant, condition metav1.Condition) error {
	condition.ObservedGeneration = t.Generation
	if !meta.SetStatusCondition(&t.Status.Conditions, condition) {
		return nil
	}
	updated, err := c.tenants.UpdateStatus(ctx, t, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("reporting %s: %w", condition.Type, err)
	}
	*t = *updated
	return nil
}
