package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// lateBy is how long after its time a plugin may still answer, which hears of
// the end of a call a little later than the hook.
const lateBy = time.Second

// question is what a plugin of a tenant is asked.
type question struct {
	attr   admission.Attributes
	native *attributes
	// own finds the plugin, nil where there is nothing to ask any more.
	own func(context.Context) (admission.Interface, error)
	// standing is that of the tenant, nil for a request of its user.
	standing *standing
	// work is what the plugin computes for.
	work fairqueue.Work
}

// question finds the tenant's own plugin and translates what it is asked. It is
// nil where there is nothing to ask.
func (p *plugin) question(ctx context.Context, attr admission.Attributes) (*question, error) {
	a := p.admission
	tenant := a.tenantOf(ctx, attr)
	if space.IsSystem(tenant) {
		return nil, nil
	}
	who := authorOf(attr)
	if !a.asks(tenant, who) {
		return nil, nil
	}
	var err error
	fairqueue.Of(ctx).Wait(func() { err = a.presence.wait(ctx, readyWithin) })
	if err != nil {
		return nil, admission.NewForbidden(attr, fmt.Errorf("not yet ready to handle request: %w", err))
	}
	if !a.presence.has(tenant, p.name) {
		return nil, nil
	}
	native, err := newAttributes(a.opts.Projector(tenant), a.kinds, attr)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	q := &question{attr: attr, native: native,
		work: p.work(),
		own:  func(ctx context.Context) (admission.Interface, error) { return p.own(ctx, tenant, attr) }}
	if who == aWorkload {
		q.standing = a.standing(tenant)
	}
	return q, nil
}

// tries is how many instances a request waits for, each of which can end when
// the tenant deletes its last configuration.
const tries = 3

// own returns the tenant's plugin, which knows its configurations. It is nil if
// there are none any more.
func (p *plugin) own(ctx context.Context, tenant string, attr admission.Attributes) (admission.Interface, error) {
	for range tries {
		if !p.admission.presence.has(tenant, p.name) {
			return nil, nil
		}
		i := p.admission.instance(tenant)
		own, err := i.plugin(p.name)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		fairqueue.Of(ctx).Wait(func() { err = i.wait(ctx, p.name, own) })
		switch {
		case err == nil:
			return own, nil
		case !errors.Is(err, errEnded):
			return nil, admission.NewForbidden(attr, err)
		}
	}
	return nil, admission.NewForbidden(attr, errNotReady)
}

// ask has the plugin answer. A controller waits no longer than the hooks of a
// tenant may take of one request, whatever the plugin waits for: its
// configurations, the objects that its policies name, a hook.
func (q *question) ask(ctx context.Context, of func(context.Context, admission.Interface) error) error {
	ctx, allowed := allowanceOf(ctx)
	q.native.computing = &allowed.computing
	defer fairqueue.Of(ctx).Meanwhile(q.work)()
	most := computeFor
	if q.standing != nil {
		most = workloadBudget
	}
	answer := func(ctx context.Context) error {
		own, err := q.own(ctx)
		if err != nil || own == nil || !own.Handles(q.attr.GetOperation()) {
			return err
		}
		fairqueue.Of(ctx).Need()
		err = allowed.computing.run(ctx, most, func(ctx context.Context) error { return of(ctx, own) })
		if long := longComputing(0); errors.As(err, &long) {
			return admission.NewForbidden(q.attr, long)
		}
		return err
	}
	if q.standing == nil {
		return answer(ctx)
	}
	began := time.Now()
	if err := q.standing.enter(began); err != nil {
		// Without a time after which to try again: the client of the
		// controller would wait for it, and the worker with the client.
		return apierrors.NewTooManyRequests(err.Error(), 0)
	}
	allowed.begin(q.standing)
	asking, cancel := context.WithCancelCause(ctx)
	done := make(chan error, 1)
	go func() {
		defer func() { q.standing.leave(began, time.Now()) }()
		defer cancel(nil)
		done <- answer(asking)
	}()
	_, left := allowed.left()
	timer := time.NewTimer(max(left, 0) + lateBy)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		// The plugin may go on for a little with the native copy, which nobody uses.
		cancel(errBudget)
		q.standing.failed(time.Now())
		return admission.NewForbidden(q.attr, errors.Join(errBudget, context.Cause(ctx)))
	}
}
