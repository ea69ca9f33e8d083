package access

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/directory"
)

// Name is the component's name.
const Name = "tenant-access"

const (
	// workers is how many accesses of a lane are worked on at a time. Each keeps one while a space is slow, as with
	// webhooks that do not answer.
	workers = 16
	// One that could not be done is tried again after minWait, and then ever less often.
	minWait, maxWait, maxOwnWait = 200 * time.Millisecond, 15 * time.Second, time.Minute
	// ownPace is how long a tenant whose users made accesses rests after each.
	ownPace = 500 * time.Millisecond
	// look is how often one is looked at that nothing happens to: its binding is not watched.
	look = 10 * time.Minute
	// soonest is how long one is left alone that has just been looked at.
	soonest = time.Second
	// limit bounds one try.
	limit, ownLimit = 30 * time.Second, 10 * time.Second
	// byTenant is the index of accesses by their tenant.
	byTenant = "tenant"
)

// Tenants are those of this server.
type Tenants interface {
	// Get finds a tenant, nil when there is none. It can be one of another partition.
	Get(ctx context.Context, name string) (*tenantapi.Tenant, error)
	// Known finds a tenant of this partition that has been used, nil when none is known.
	Known(name string) *tenantapi.Tenant
	// Follow tells f of what changes, until stop is called.
	Follow(ctx context.Context, f directory.Follower) (stop func(), known bool)
}

// Options configures the controller.
type Options struct {
	// Config reaches the API as a system user with all rights.
	Config  *restclient.Config
	Tenants Tenants
	// Partition is the name of the partition of this server.
	Partition string
	// Server is the URL of the API for other machines.
	Server string
	// ServerCA is what they verify it with, in PEM, as it is now.
	ServerCA func() ([]byte, error)
	// ClientCA signs the certificates of users, as it is now.
	ClientCA func() (*pki.CA, error)
	Log      *logrus.Entry
}

// New returns the supervised controller.
func New(o Options) component.Component {
	return component.Component{Name: Name,
		Run: func(ctx context.Context, ready func()) error { return run(ctx, o, ready) }}
}

type controller struct {
	o        Options
	config   *restclient.Config
	http     *http.Client
	accesses *tenantapi.AccessClient
	system   kubernetes.Interface
	// secrets are those of the system space, everywhere those of all spaces.
	secrets, everywhere metadata.Interface
	// placed is the partition in which a tenant is placed, "" for none.
	placed  func(ctx context.Context, tenant string) (string, error)
	known   cache.Indexer
	watcher cache.Controller
	// ofSystem are the accesses of the system space, own those in the spaces of tenants.
	ofSystem, own *lane
	// some and someOwn are called, and wait until, there is one of these.
	some, someOwn *event
}

// event is something that happens once.
type event struct {
	once sync.Once
	ch   chan struct{}
}

func newEvent() *event { return &event{ch: make(chan struct{})} }

func (e *event) happens() { e.once.Do(func() { close(e.ch) }) }

// wait returns false if the context ends before.
func (e *event) wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-e.ch:
		return true
	}
}

func newController(o Options) (*controller, error) {
	c := &controller{o: o, config: restclient.AddUserAgent(restclient.CopyConfig(o.Config), Name),
		ofSystem: newLane(0, limit, maxWait), own: newLane(ownPace, ownLimit, maxOwnWait),
		some: newEvent(), someOwn: newEvent()}
	c.config.QPS = -1 // as many as there are workers
	var err error
	if c.http, err = restclient.HTTPClientFor(c.config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if c.accesses, err = tenantapi.NewAccessClient(c.config, c.http); err != nil {
		return nil, err
	}
	inSystem := tenantapi.InSpace(c.config, space.System)
	if c.system, err = kubernetes.NewForConfigAndClient(inSystem, c.http); err != nil {
		return nil, fmt.Errorf("making a client of the system space: %w", err)
	}
	if c.secrets, err = metadata.NewForConfigAndClient(inSystem, c.http); err != nil {
		return nil, fmt.Errorf("making a client of metadata: %w", err)
	}
	if c.everywhere, err = metadata.NewForConfigAndClient(c.config, c.http); err != nil {
		return nil, fmt.Errorf("making a client of metadata: %w", err)
	}
	placements, err := partitionapi.NewPlacementClient(c.config, c.http)
	if err != nil {
		return nil, err
	}
	c.placed = func(ctx context.Context, tenant string) (string, error) {
		p, err := placements.Get(ctx, tenant, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("looking for the partition of tenant %s: %w", tenant, err)
		}
		return p.Spec.Partition, nil
	}
	c.known, c.watcher = c.informer()
	return c, nil
}

// laneOf is that of an access by its name inside. In the space of a tenant its users made it.
func (c *controller) laneOf(key string) (l *lane, own bool) {
	if of, _ := space.SplitClusterName(key); !space.IsSystem(of) {
		return c.own, true
	}
	return c.ofSystem, false
}

// flowOf is the tenant whose space an access is to, and whether the access is there. Of one that is gone it is the
// space that it was in.
func (c *controller) flowOf(key string) (of string, there bool) {
	if obj, there, err := c.known.GetByKey(key); err == nil && there {
		if a, ok := obj.(*tenantapi.TenantAccess); ok {
			return a.To(), true
		}
	}
	of, _ = space.SplitClusterName(key)
	return of, false
}

// kept is what is kept of an access. Updates without managed fields leave them, and those of the status all
// metadata: users of a tenant can make these as large as an object can be. Of theirs only the status is updated.
func kept(obj any) (any, error) {
	a, ok := obj.(*tenantapi.TenantAccess)
	if !ok {
		return obj, nil
	}
	a.ManagedFields = nil
	if of, _ := a.Of(); !space.IsSystem(of) {
		a.Labels, a.Annotations, a.OwnerReferences, a.Finalizers, a.GenerateName = nil, nil, nil, nil, ""
	}
	return a, nil
}

// informer keeps all accesses, those in the spaces of tenants too, by their names inside.
func (c *controller) informer() (cache.Indexer, cache.Controller) {
	tell := func(obj any) {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		if err != nil {
			return
		}
		l, own := c.laneOf(key)
		if own {
			c.someOwn.happens()
		} else {
			c.some.happens()
		}
		l.queue.Add(key)
	}
	store, watcher := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return c.accesses.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return c.accesses.Watch(ctx, options)
			},
		},
		ObjectType: &tenantapi.TenantAccess{},
		Transform:  kept,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: tell, UpdateFunc: func(_, obj any) { tell(obj) }, DeleteFunc: tell,
		},
		Indexers: cache.Indexers{byTenant: func(obj any) ([]string, error) {
			if a, ok := obj.(*tenantapi.TenantAccess); ok {
				return []string{a.To()}, nil
			}
			return nil, nil
		}},
	})
	return store.(cache.Indexer), watcher
}

func run(ctx context.Context, o Options, ready func()) error {
	c, err := newController(o)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer c.ofSystem.shutDown()
	defer c.own.shutDown()
	stop, known := o.Tenants.Follow(ctx, directory.Follower{Tenant: c.tenantChanged, Template: func(string) {}})
	defer stop()
	if !known {
		return nil
	}
	running.Go(func() { c.watcher.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), c.watcher.HasSynced) {
		return nil
	}
	for _, l := range []*lane{c.ofSystem, c.own} {
		running.Go(func() { l.sort(c.flowOf) })
		for range workers {
			running.Go(func() {
				for c.next(ctx, l) {
				}
			})
		}
	}
	running.Go(func() { c.watchSecrets(ctx) })
	running.Go(func() { c.watchOwnSecrets(ctx) })
	ready()
	<-ctx.Done()
	return nil
}

// tenantChanged is called with a tenant as it was and is; nil is one that is not there.
func (c *controller) tenantChanged(old, t *tenantapi.Tenant) {
	if old != nil && t != nil && (old.DeletionTimestamp == nil) == (t.DeletionTimestamp == nil) &&
		old.ReadsOnly() == t.ReadsOnly() {
		return
	}
	name := ""
	if t != nil {
		name = t.Name
	} else if old != nil {
		name = old.Name
	}
	keys, err := c.known.IndexKeys(byTenant, name)
	if err != nil {
		return // there is the index
	}
	for _, key := range keys {
		l, _ := c.laneOf(key)
		l.queue.Add(key)
	}
}

// next works on one access of a lane. It returns false when there will be no more.
func (c *controller) next(ctx context.Context, l *lane) bool {
	of, name, more := l.turns.get()
	if !more {
		return false
	}
	defer l.turns.done(of)
	limited, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	again, err := c.reconcile(limited, name)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		c.o.Log.WithField("name", name).WithError(err).Debug("will try again")
		l.queue.AddRateLimited(name)
	default:
		l.queue.Forget(name)
		if again > 0 {
			l.queue.AddAfter(name, again)
		}
	}
	return true
}
