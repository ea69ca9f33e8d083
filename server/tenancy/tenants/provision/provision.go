package provision

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

const (
	// limit bounds one try to make a space.
	limit = 10 * time.Second
	// moment is how long a watch may be late.
	moment = time.Second
	// look is how often it is looked whether the caches have what was made.
	look = 5 * time.Millisecond
	// late is how long upstream's controllers are waited for.
	late = 200 * time.Millisecond
	// templateLate is how long the objects of the tenant's template are waited for.
	templateLate = 3 * time.Second
	// retryAfter is what a client is advised to wait when a space cannot be made, in
	// seconds.
	retryAfter = 1
)

// Tenants knows the tenants of the cluster.
type Tenants interface {
	// Get finds a tenant, nil when there is none.
	Get(ctx context.Context, name string) (*tenantapi.Tenant, error)
	// Known finds one whose space is made, as far as this server knows, or nil.
	Known(name string) *tenantapi.Tenant
}

// Growth is the heap's growth by new spaces.
type Growth interface {
	// Wait waits while garbage is collected for them.
	Wait(ctx context.Context)
	// Tenant counts one.
	Tenant()
}

// Options configures a Provisioner.
type Options struct {
	// Config reaches the API as a system user with all rights.
	Config  *restclient.Config
	Tenants Tenants
	// RootCA is what pods verify the API with, in PEM.
	RootCA string
	// Has reports whether this server judges by ClusterRoles and ClusterRoleBindings
	// of these names.
	Has    func(roles, bindings sets.Set[string]) bool
	Growth Growth
	Log    *logrus.Entry
}

// Provisioner makes spaces that are not made when they are used.
type Provisioner struct {
	opts    Options
	client  kubernetes.Interface
	maker   *Maker
	tenants *tenantapi.Client
	making  singleflight.Group
}

// New makes a Provisioner, which asks nothing of the API before Ensure is called.
func New(o Options) (*Provisioner, error) {
	config := restclient.AddUserAgent(restclient.CopyConfig(o.Config), "provision")
	config.QPS = -1 // as many as there are requests that wait
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf,
		runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	http, err := restclient.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	p := &Provisioner{opts: o}
	if p.client, err = kubernetes.NewForConfigAndClient(config, http); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if p.maker, err = NewMaker(config, http); err != nil {
		return nil, err
	}
	if p.tenants, err = tenantapi.NewClient(config, http); err != nil {
		return nil, err
	}
	return p, nil
}

// Ensure returns when a user of a tenant can use its space, or an error for the client:
// that there is no such tenant, or that its space could not be made. A tenant that
// is being deleted is left to those who refuse what cannot be done in it.
func (p *Provisioner) Ensure(ctx context.Context, name string) error {
	if err := p.ensure(ctx, name); err != nil || space.IsSystem(name) {
		return err
	}
	t := p.opts.Tenants.Known(name)
	if t == nil || t.Spec.Template == "" ||
		meta.FindStatusCondition(t.Status.Conditions, tenantapi.TemplateApplied) != nil {
		return nil
	}
	// Somebody else's request made the space, on another server too: this one is no later than the first.
	ready := meta.FindStatusCondition(t.Status.Conditions, tenantapi.SpaceReady)
	if ready == nil || time.Since(ready.LastTransitionTime.Time) > templateLate {
		return nil
	}
	if !p.templated(ctx, name) && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

// ensure is Ensure for all others: who keeps the templates waits for nobody to do it.
func (p *Provisioner) ensure(ctx context.Context, name string) error {
	if space.IsSystem(name) {
		return nil
	}
	t, err := p.opts.Tenants.Get(ctx, name)
	switch {
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("looking for the tenant: %w", err))
	case t == nil:
		return apierrors.NewNotFound(tenantapi.GroupResource(), name)
	case t.DeletionTimestamp != nil:
		return nil
	case t.Made():
		return p.catchUp(ctx, name)
	}
	made := p.making.DoChan(name, func() (any, error) {
		// It goes on without the one that began it: others wait too.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		return nil, p.make(ctx, name)
	})
	select {
	case <-ctx.Done():
		return ctx.Err()
	case result := <-made:
		return result.Err
	}
}

// catchUp waits a moment until this server knows of a space that another one has just
// made, for the next request of the client that used it there.
func (p *Provisioner) catchUp(ctx context.Context, name string) error {
	if p.opts.Tenants.Known(name) != nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	err := wait.PollUntilContextCancel(limited, look, true, func(context.Context) (bool, error) {
		return p.opts.Tenants.Known(name) != nil, nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		p.opts.Log.WithField("tenant", name).Debug("the watch of tenants is late")
	}
	return nil
}

// make makes the space of a tenant and waits until this server knows it.
func (p *Provisioner) make(ctx context.Context, name string) error {
	log := p.opts.Log.WithField("tenant", name)
	p.opts.Growth.Wait(ctx)
	err := p.maker.Make(ctx, name, log)
	if err == nil {
		err = p.report(ctx, name)
	}
	if err == nil {
		err = wait.PollUntilContextCancel(ctx, look, true, func(ctx context.Context) (bool, error) {
			return p.known(ctx, name)
		})
	}
	switch {
	case apierrors.IsNotFound(err): // it is gone meanwhile
		return apierrors.NewNotFound(tenantapi.GroupResource(), name)
	case err != nil:
		log.WithError(err).Warn("the space could not be made: its next request tries again")
		return unavailable(name, err)
	}
	// Not before: a request in a namespace of a dormant space, such as those of podDefaults,
	// waits for this very function.
	if err := podDefaults(ctx, p.client, name, p.opts.RootCA); err != nil {
		log.WithError(err).Warn("what pods need is left to the controllers of upstream")
	}
	if !p.templated(ctx, name) {
		log.Warn("the objects of the template of the tenant come later than its first request")
	}
	p.opts.Growth.Tenant()
	log.Info("space is made by its first request")
	return nil
}

// report writes that the default objects exist.
func (p *Provisioner) report(ctx context.Context, name string) error {
	for {
		t, err := p.tenants.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading the tenant: %w", err)
		}
		if t.Made() || t.DeletionTimestamp != nil {
			return nil
		}
		condition := tenantapi.MadeCondition()
		condition.ObservedGeneration = t.Generation
		meta.SetStatusCondition(&t.Status.Conditions, condition)
		// It was true before, and this is when the space began: Ensure goes by it.
		meta.FindStatusCondition(t.Status.Conditions, tenantapi.SpaceReady).LastTransitionTime = metav1.Now()
		if _, err = p.tenants.UpdateStatus(ctx, t, metav1.UpdateOptions{}); err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("reporting that the space is made: %w", err)
		}
	}
}

// known reports whether this server knows that the space is made, and by whose
// roles its users are judged.
func (p *Provisioner) known(ctx context.Context, name string) (bool, error) {
	if t := p.opts.Tenants.Known(name); t != nil && (t.Made() || t.DeletionTimestamp != nil) {
		return t.DeletionTimestamp != nil || p.opts.Has(sets.New(space.ClusterName(name, adminRole)),
			sets.New(space.ClusterName(name, adminBinding))), nil
	}
	t, err := p.opts.Tenants.Get(ctx, name)
	if err == nil && t == nil {
		err = apierrors.NewNotFound(tenantapi.GroupResource(), name)
	}
	return false, err
}

// templated waits a while until the space has what its template says, or cannot have it: what bounds
// the users of the tenant is there before they are. Whichever server keeps templates makes it. It is no
// barrier: who comes after templateLate is let in, so that no template keeps anybody out.
func (p *Provisioner) templated(ctx context.Context, name string) bool {
	limited, cancel := context.WithTimeout(ctx, templateLate)
	defer cancel()
	return wait.PollUntilContextCancel(limited, look, true, func(context.Context) (bool, error) {
		t := p.opts.Tenants.Known(name)
		return t == nil || t.Spec.Template == "" || t.DeletionTimestamp != nil ||
			meta.FindStatusCondition(t.Status.Conditions, tenantapi.TemplateApplied) != nil, nil
	}) == nil
}

// unavailable has clients try again, as upstream's own do.
func unavailable(name string, err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable,
		Reason:  metav1.StatusReasonServiceUnavailable,
		Message: fmt.Sprintf("the space of tenant %s cannot be made now: %v", name, err),
		Details: &metav1.StatusDetails{Kind: tenantapi.Resource, Name: name, RetryAfterSeconds: retryAfter},
	}}
}
