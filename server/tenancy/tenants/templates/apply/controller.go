package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/directory"
)

// Name is the component's name.
const Name = "tenant-templates"

const (
	// workers is how many tenants are worked on at a time.
	workers = 8
	// A tenant that could not be done is tried again after minWait, and then ever less often.
	minWait, maxWait = 100 * time.Millisecond, time.Minute
	// spread is between two tenants that are looked at only because this server leads now: new ones
	// do not wait behind all of them.
	spread = 20 * time.Millisecond
	// limit bounds one try, wakeLimit one to awaken the dormant tenants of a template: nothing but a list of all
	// tenants finds these.
	limit, wakeLimit = 30 * time.Second, 10 * time.Minute
)

// Tenants are those of this server.
type Tenants interface {
	// Known finds a tenant that is not dormant, or nil; Names are those of all of them.
	Known(name string) *tenantapi.Tenant
	Names() []string
	// Template finds a template, or nil; TemplateNames are those of all.
	Template(name string) *tenantapi.TenantTemplate
	TemplateNames() []string
	// Follow tells f of what changes, until stop is called, after all above is known.
	Follow(ctx context.Context, f directory.Follower) (stop func(), known bool)
}

// Options configures the controller.
type Options struct {
	// Config reaches the API as a system user with all rights.
	Config  *restclient.Config
	Tenants Tenants
	Log     *logrus.Entry
}

// New returns the supervised controller.
func New(o Options) component.Component {
	return component.Component{Name: Name,
		Run: func(ctx context.Context, ready func()) error { return run(ctx, o, ready) }}
}

type controller struct {
	o         Options
	config    *restclient.Config
	http      *http.Client
	tenants   *tenantapi.Client
	templates *tenantapi.TemplateClient
	metadata  metadata.Interface
	// inSystem is the metadata of the system space.
	inSystem metadata.Interface
	maker    maker
	grants   grants
	sleepers sleepers
	marks    *marks
	turns    turns
	// queue has the tenants that have to be looked at, rollouts the templates, awakenings those whose dormant
	// tenants do.
	queue, rollouts, awakenings workqueue.TypedRateLimitingInterface[string]
	told                        told
	follows                     follows
	running                     sync.WaitGroup
}

func newController(o Options) (*controller, error) {
	c := &controller{o: o, marks: newMarks(), turns: turns{tenants: map[string]turn{}},
		follows: follows{newFollowed(), newFollowed(), newFollowed()},
		config:  restclient.AddUserAgent(restclient.CopyConfig(o.Config), Name)}
	c.config.QPS = -1 // as many as there are workers
	var err error
	if c.http, err = restclient.HTTPClientFor(c.config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if c.tenants, err = tenantapi.NewClient(c.config, c.http); err != nil {
		return nil, err
	}
	if c.templates, err = tenantapi.NewTemplateClient(c.config, c.http); err != nil {
		return nil, err
	}
	if c.grants.accesses, err = tenantapi.NewAccessClient(c.config, c.http); err != nil {
		return nil, err
	}
	c.grants.write = c.write
	c.sleepers, c.told = sleepers{c.tenants, o.Tenants.Template, map[string]*awakening{}}, told{}
	inSystem := tenantapi.InSpace(c.config, space.System)
	if c.inSystem, err = metadata.NewForConfigAndClient(inSystem, c.http); err != nil {
		return nil, fmt.Errorf("making a client of metadata of the system space: %w", err)
	}
	system, err := dynamic.NewForConfigAndClient(inSystem, c.http)
	if err != nil {
		return nil, fmt.Errorf("making a client of the system space: %w", err)
	}
	c.maker = maker{sources{system.Resource(secretResource())}, c.marks}
	if c.metadata, err = metadata.NewForConfigAndClient(c.config, c.http); err != nil {
		return nil, fmt.Errorf("making a client of metadata: %w", err)
	}
	newQueue := func() workqueue.TypedRateLimitingInterface[string] {
		return workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](minWait, maxWait))
	}
	c.queue, c.rollouts, c.awakenings = newQueue(), newQueue(), newQueue()
	return c, nil
}

func run(ctx context.Context, o Options, ready func()) error {
	c, err := newController(o)
	if err != nil {
		return err
	}
	defer c.running.Wait()
	defer c.shutDown()
	stop, known := o.Tenants.Follow(ctx, directory.Follower{Tenant: c.tenantChanged, Template: c.templateChanged})
	defer stop()
	if !known {
		return nil
	}
	c.begin()
	for range workers {
		c.running.Go(func() {
			for c.next(ctx, c.queue, limit, c.reconcile) {
			}
		})
	}
	c.running.Go(func() {
		for c.next(ctx, c.rollouts, limit, c.rollOut) {
		}
	})
	c.running.Go(func() {
		for c.next(ctx, c.awakenings, wakeLimit, c.sleepers.awaken) {
		}
	})
	c.running.Go(func() { c.watchAll(ctx) })
	c.running.Go(func() { c.watchSources(ctx) })
	c.running.Go(func() { c.watchAccesses(ctx) })
	ready()
	<-ctx.Done()
	return nil
}

func (c *controller) shutDown() {
	c.queue.ShutDown()
	c.rollouts.ShutDown()
	c.awakenings.ShutDown()
}

// begin looks at all that is there: something may have changed while nobody looked. Tenants that are only behind a
// changed template wait for their turn. One whose turn had begun at the server that led before does not: it may have
// half of its objects, and there may be no next turn while another tenant stops the roll-out.
func (c *controller) begin() {
	for _, name := range c.o.Tenants.TemplateNames() {
		c.rollouts.Add(name)
	}
	var later time.Duration
	for _, t := range c.all() {
		is, template := t.Status.Template, c.o.Tenants.Template(t.Spec.Template)
		switch {
		case !templated(t):
		case is == nil || template == nil || is.Name != template.Name:
			c.queue.Add(t.Name)
		case is.Generation == begun:
			c.turns.give(template, t.Name)
			c.queue.Add(t.Name)
		case is.Generation == template.Generation:
			c.queue.AddAfter(t.Name, later)
			later += spread
		}
	}
}

// templated reports whether a tenant has, or had, anything of a template.
func templated(t *tenantapi.Tenant) bool { return t.Spec.Template != "" || t.Status.Template != nil }

// tenantChanged is called with a tenant as it was and is; nil is one that is not there.
func (c *controller) tenantChanged(old, t *tenantapi.Tenant) {
	if t == nil {
		c.marks.forget(old.Name)
		c.turns.forget(old.Name)
		if old.Spec.Template != "" {
			c.rollouts.AddAfter(old.Spec.Template, moment)
		}
		return
	}
	if !templated(t) && (old == nil || !templated(old)) {
		return
	}
	if old == nil || made(old) != made(t) || old.Spec.Template != t.Spec.Template ||
		!maps.Equal(old.Labels, t.Labels) || !maps.Equal(old.Annotations, t.Annotations) ||
		!slices.Equal(accesses(old), accesses(t)) { // the template may have changed while they were made
		c.queue.Add(t.Name)
	}
	if t.Spec.Template != "" {
		c.rollouts.AddAfter(t.Spec.Template, moment)
	}
	if old != nil && old.Spec.Template != t.Spec.Template && old.Spec.Template != "" {
		c.rollouts.AddAfter(old.Spec.Template, moment)
	}
}

func (c *controller) templateChanged(name string) { c.rollouts.Add(name) }

// next works on one item of a queue. It returns false when there will be no more.
func (c *controller) next(
	ctx context.Context, queue workqueue.TypedRateLimitingInterface[string], atMost time.Duration,
	work func(context.Context, string) error,
) bool {
	name, stop := queue.Get()
	if stop {
		return false
	}
	defer queue.Done(name)
	limited, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	err := work(limited, name)
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil, apierrors.IsNotFound(err) && c.o.Tenants.Known(name) == nil:
		queue.Forget(name)
	default:
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("it took longer than %s: %w", atMost, err)
		}
		c.o.Log.WithField("name", name).WithError(err).Debug("will try again")
		queue.AddRateLimited(name)
	}
	return true
}
