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
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/tenants/contents"
	"github.com/a4s-io/a4s/server/tenancy/tenants/provision"
)

// Name is the component's name.
const Name = "tenant-controller"

const (
	// workers is how many tenants are made or emptied at a time.
	workers = 8
	// again is how many of those that were not done at once are worked on at a
	// time: they never keep others waiting.
	again = 4
	// qps keeps a storm of deletions from taking the whole API.
	qps, burst = 1000, 2000
	// A tenant that is not done is looked at again after minWait, and then
	// ever less often. A space that is emptied and takes longer to look at is looked at for
	// one part in share of the time.
	minWait, maxWait, share = 50 * time.Millisecond, 2 * time.Second, 10
	// maxRest bounds that.
	maxRest = time.Minute
	// patience is after how many tries, a second or so, it is worth saying
	// what a tenant waits for.
	patience = 4
	// firstTry and laterTry bound one try.
	firstTry, laterTry = 5 * time.Second, 5 * time.Minute
)

// Contents says what the datastore has of a tenant.
type Contents interface {
	// Contents has every resource of which there is at least one object, and
	// is as new as the datastore.
	Contents(ctx context.Context, tenant string) ([]contents.Resource, error)
	// Drop takes objects out of the datastore that no API serves.
	Drop(ctx context.Context, tenant string, r contents.Resource) error
	// Remove takes those out of the datastore that which returns true for, from
	// what is stored. It returns how many there were.
	Remove(ctx context.Context, tenant string, r contents.Resource, which func(stored []byte) bool) (int64, error)
	// Discard deletes what no API reaches any more, once that is all.
	Discard(ctx context.Context, tenant string) (n int64, err error)
}

// Options configures the controller.
type Options struct {
	// Config reaches the API as a system user with all rights.
	Config   *restclient.Config
	Contents Contents
	// DefaultTenant is made at the start if it is missing; empty means none.
	DefaultTenant string
	// Pool is where the Tenants that it knows share what they say with other
	// caches.
	Pool *interning.Pool // nil for none
	Log  *logrus.Entry
}

// New returns the supervised controller. It is ready when the tenants exist
// that every server has.
func New(o Options) component.Component {
	return component.Component{Name: Name,
		Run: func(ctx context.Context, ready func()) error { return run(ctx, o, ready) }}
}

type controller struct {
	log      *logrus.Entry
	config   *restclient.Config // with protobuf, and one rate limit for all clients
	http     *http.Client
	client   kubernetes.Interface
	maker    *provision.Maker
	metadata metadata.Interface
	tenants  *tenantapi.Client
	contents Contents
	apis     *apis
	// builtIn are the groups that every space has alike.
	builtIn map[string]bool
	store   cache.Store
	// queue has the tenants that something happened to, slow those that were
	// not done then.
	queue, slow workqueue.TypedDelayingInterface[string]
	tries       workqueue.TypedRateLimiter[string]
}

func newController(o Options) (*controller, error) {
	c := &controller{log: o.Log, config: restclient.CopyConfig(o.Config), contents: o.Contents}
	c.config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(qps, burst)
	c.config.ContentType, c.config.AcceptContentTypes = runtime.ContentTypeProtobuf,
		runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	var err error
	if c.http, err = restclient.HTTPClientFor(c.config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if c.client, err = kubernetes.NewForConfigAndClient(c.config, c.http); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if c.maker, err = provision.NewMaker(c.config, c.http); err != nil {
		return nil, err
	}
	if c.metadata, err = metadata.NewForConfigAndClient(c.config, c.http); err != nil {
		return nil, fmt.Errorf("making a client of metadata: %w", err)
	}
	if c.tenants, err = tenantapi.NewClient(c.config, c.http); err != nil {
		return nil, err
	}
	c.apis, c.builtIn = &apis{client: c.client.Discovery()}, kinds.Groups()
	c.queue, c.slow = workqueue.NewTypedDelayingQueue[string](), workqueue.NewTypedDelayingQueue[string]()
	c.tries = workqueue.NewTypedItemExponentialFailureRateLimiter[string](minWait, maxWait)
	return c, nil
}

func run(ctx context.Context, o Options, ready func()) error {
	c, err := newController(o)
	if err != nil {
		return err
	}
	defer c.shutDown()
	if err := c.ensureTenants(ctx, o.DefaultTenant); err != nil {
		return err
	}
	var informer cache.Controller
	var transform cache.TransformFunc
	if o.Pool != nil {
		transform = o.Pool.Transform
	}
	c.store, informer = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: tenantapi.ListWatch(c.tenants),
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
		Transform: transform, // an update without managed fields leaves them
	})
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	for i := range workers + again {
		running.Go(func() {
			queue, limit := c.queue, firstTry
			if i >= workers {
				queue, limit = c.slow, laterTry
			}
			for c.next(ctx, queue, limit) {
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
	c.shutDown() // before the wait for the workers
	return nil
}

func (c *controller) shutDown() {
	c.queue.ShutDown()
	c.slow.ShutDown()
}

// ensureTenants makes the tenants that every server has.
func (c *controller) ensureTenants(ctx context.Context, names ...string) error {
	for _, name := range append([]string{space.System}, names...) {
		if name == "" {
			continue
		}
		_, err := c.tenants.Create(ctx, &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
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
type state struct{ deleted, finalized, ready bool }

func stateOf(obj any) state {
	t := obj.(*tenantapi.Tenant)
	return state{
		deleted:   !t.DeletionTimestamp.IsZero(),
		finalized: slices.Contains(t.Finalizers, tenantapi.Finalizer),
		ready:     meta.IsStatusConditionTrue(t.Status.Conditions, tenantapi.SpaceReady),
	}
}

// next works on one tenant of a queue, for a limited time. It returns false
// when there will be no more.
func (c *controller) next(ctx context.Context, queue workqueue.TypedInterface[string], limit time.Duration) bool {
	name, stop := queue.Get()
	if stop {
		return false
	}
	defer queue.Done(name)
	began, tried := time.Now(), c.tries.NumRequeues(name)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done, err := c.reconcile(limited, name)
	if ctx.Err() != nil {
		return false
	}
	if done && err == nil {
		c.tries.Forget(name)
		return true
	}
	if err != nil {
		level := logrus.DebugLevel // it stands in the conditions too
		if tried == patience {
			level = logrus.WarnLevel
		}
		c.log.WithField("tenant", name).WithError(err).Log(level, "will try again")
	}
	c.slow.AddAfter(name, c.rest(name, time.Since(began)))
	return true
}

// rest is how long a tenant waits for its next try. One that is emptied waits longer the longer it takes to look at;
// for one that is made somebody waits, and what takes long there is a busy server, not the tenant.
func (c *controller) rest(name string, took time.Duration) time.Duration {
	rest := c.tries.When(name)
	if obj, exists, err := c.store.GetByKey(name); err == nil && exists && stateOf(obj).deleted {
		rest = max(rest, min((share-1)*took, maxRest))
	}
	return rest
}

// reconcile brings one space into the state that its Tenant says. It is not
// done if it has to be called again without a change of the Tenant.
func (c *controller) reconcile(ctx context.Context, name string) (done bool, err error) {
	obj, exists, err := c.store.GetByKey(name)
	if err != nil || !exists {
		return err == nil, err
	}
	t := obj.(*tenantapi.Tenant).DeepCopy()
	log := c.log.WithField("tenant", name)
	switch is := stateOf(t); {
	case is.deleted && name == space.System:
		return true, nil // it never goes
	case is.deleted && is.finalized:
		return c.terminate(ctx, t, log)
	case is.deleted, is.ready:
		return true, nil // others hold it, or it was made, or its first request makes it
	}
	if err := c.maker.Make(ctx, name, log); err != nil {
		return false, errors.Join(err, c.complain(ctx, t, metav1.Condition{
			Type: tenantapi.SpaceReady, Status: metav1.ConditionFalse, Reason: "NotMade", Message: err.Error(),
		}))
	}
	if err := c.report(ctx, t, tenantapi.MadeCondition()); err != nil {
		return false, err
	}
	log.Info("space is ready")
	return true, nil
}

// complain reports what stands for long.
func (c *controller) complain(ctx context.Context, t *tenantapi.Tenant, condition metav1.Condition) error {
	if c.tries.NumRequeues(t.Name) < patience {
		return nil
	}
	// Time may be what was missing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), firstTry)
	defer cancel()
	return c.report(ctx, t, condition)
}

// report writes a condition unless it stands there already.
func (c *controller) report(ctx context.Context, t *tenantapi.Tenant, condition metav1.Condition) error {
	condition.ObservedGeneration = t.Generation
	// It may have words of the tenant in it, and administrators read it on terminals.
	condition.Message = problem.Line(condition.Message)
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
