package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/a4s-io/a4s/internal/space"
)

// lateBy is how long after its time a plugin may still answer, which hears of
// the end of a call a little later than the hook.
const lateBy = time.Second

// question is what a plugin of a tenant is asked.
type question struct {
	tenant string
	author author
	attr   admission.Attributes
	native *attributes
	// standing is that of the tenant, nil for a request of its user.
	standing *standing
	own      admission.Interface
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
	if err := a.presence.wait(ctx, readyWithin); err != nil {
		return nil, admission.NewForbidden(attr, fmt.Errorf("not yet ready to handle request: %w", err))
	}
	if !a.presence.has(tenant, p.name) {
		return nil, nil
	}
	own, err := a.instance(tenant).plugin(p.name)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if own == nil || !own.Handles(attr.GetOperation()) {
		return nil, nil
	}
	native, err := newAttributes(a.opts.Projector(tenant), a.kinds, attr)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	q := &question{tenant: tenant, author: who, attr: attr, native: native, own: own}
	if who == aWorkload {
		q.standing = a.standing(tenant)
	}
	return q, nil
}

// ask has the plugin answer. A controller waits no longer than the hooks of a
// tenant may take of one request, whatever the plugin waits for: its
// configurations, the objects that its policies name, a hook.
func (q *question) ask(ctx context.Context, answer func(context.Context) error) error {
	if q.author != aWorkload {
		return answer(ctx)
	}
	began := time.Now()
	if err := q.standing.enter(began); err != nil {
		// Without a time after which to try again: the client of the
		// controller would wait for it, and the worker with the client.
		return apierrors.NewTooManyRequests(err.Error(), 0)
	}
	ctx, allowed := allowanceOf(ctx)
	allowed.begin(q.standing)
	done := make(chan error, 1)
	go func() {
		defer func() { q.standing.leave(began, time.Now()) }()
		done <- answer(ctx)
	}()
	_, left := allowed.left()
	timer := time.NewTimer(max(left, 0) + lateBy)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		// The plugin may go on with the native copy, which nobody uses.
		q.standing.failed(time.Now())
		return admission.NewForbidden(q.attr, errors.Join(errBudget, context.Cause(ctx)))
	}
}
