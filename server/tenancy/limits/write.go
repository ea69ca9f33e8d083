package limits

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

const (
	// loadTimeout is how long a write waits until it is known what its tenant
	// uses.
	loadTimeout = 10 * time.Second
	// smallEnough are things that every namespace has: those that are larger
	// were not made by Kubernetes.
	smallEnough = 16 << 10
	// mark is how much larger an object may become by being marked as deleted.
	mark = 1 << 10
	// systemShare is the part of its bytes by which the system may exceed a
	// limit with what it has to say about objects.
	systemShare = 10
	// ordinary is a size that what nodes and controllers say of an object does
	// not exceed. A tenant's webhooks can make it larger.
	ordinary = 64 << 10
	// largest is more than the datastore takes of one object.
	largest = 4 << 20
	// eventShare is the part of its bytes that a tenant's events may take. They
	// stay for an hour, whoever wrote them.
	eventShare = 4
	// lateWrite is how long the datastore may still do a write of which it did not say in time
	// whether it is done.
	lateWrite = 10 * time.Second
)

// write is one write into the space of a tenant.
type write struct {
	*limited
	tenant, name, key string
	system            bool // it is the system that writes

	held  bool // need is reserved, and what is named
	need  amounts
	named reservation
	size  int64
	extra charge
	// counting is what extra.quota was computed by.
	counting *counting
}

// write is nil for what is not a tenant's.
func (s *limited) write(ctx context.Context, key string) *write {
	tenant, name := s.split(key)
	if space.IsSystem(tenant) {
		return nil
	}
	u, ok := request.UserFrom(ctx)
	return &write{
		limited: s, tenant: tenant, name: name, key: s.storedKey(key),
		system: !ok || space.IsSystem(space.TenantOf(u)),
	}
}

// before is what an object was before it is written.
type before struct {
	exists   bool
	deleting bool
}

func lookAt(obj runtime.Object) before {
	b := before{exists: true}
	if m, err := meta.Accessor(obj); err == nil {
		b.deleting = m.GetDeletionTimestamp() != nil
	}
	return b
}

// vital are the objects of which nodes and controllers must be able to say how
// they are, whatever their tenant uses.
func (w *write) vital() bool {
	switch w.resource {
	case schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "namespaces"},
		schema.GroupResource{Resource: "persistentvolumeclaims"}, schema.GroupResource{Resource: "persistentvolumes"}:
		return w.system
	}
	return false
}

// reserve takes what the object needs more than there was of it.
func (w *write) reserve(ctx context.Context, was before, obj runtime.Object) error {
	t, err := w.limits.tenants.Get(ctx, w.tenant)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("looking for the tenant: %w", err))
	}
	own := w.limits.limitsOf(t)
	limits := amountsOf(own)
	if limits == unbounded() && w.limits.fill == nil && own.EventsPerSecond == nil && len(own.Devices) == 0 &&
		len(own.Quota) == 0 {
		return nil
	}
	if known, err := w.awaitCount(ctx); err != nil || !known {
		return err
	}
	if was.exists && w.vital() && w.limits.accounting.used(w.tenant)[bytes] < limits[bytes]-largest {
		return nil // nodes write often; it is counted when it is written
	}
	data, err := runtime.Encode(w.codec, obj)
	if err != nil {
		return fmt.Errorf("measuring the object: %w", err)
	}
	w.size, w.extra = sizeOf(w.key, len(data)), chargeOf(obj)
	w.need = w.class().amounts(w.size, w.extra)
	if was.exists {
		held := w.limits.accounting.holds(w.tenant, w.key)
		for d := range w.need {
			w.need[d] = max(0, w.need[d]-held[d])
		}
		for _, d := range []dimension{objects, namespaces, definitions, accesses} {
			w.need[d] = 0 // also if nobody has told of it yet
		}
	}
	bounds := limits
	w.widen(&bounds, was, obj)
	if lack, used, ok := w.limits.accounting.reserve(w.tenant, &w.need, &bounds); !ok {
		return w.exceeded(lack, used, limits[lack])
	}
	w.held = true
	err = w.reserveDevices(own, was)
	if err == nil {
		err = w.reserveQuota(ctx, own.Quota, was, obj)
	}
	if err == nil {
		err = w.slow(own, was, &limits)
	}
	if err != nil {
		w.release()
		return err
	}
	return nil
}

// awaitCount waits until it is known what the tenant uses. The system does not
// wait: it may be what the count waits for.
func (w *write) awaitCount(ctx context.Context) (known bool, err error) {
	select {
	case <-w.limits.accounting.loaded:
		return true, nil
	default:
	}
	if w.system {
		return false, nil
	}
	timeout := time.NewTimer(loadTimeout)
	defer timeout.Stop()
	select {
	case <-w.limits.accounting.loaded:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-timeout.C:
		return false, apierrors.NewServiceUnavailable("what the tenant uses is still being counted: try again later")
	}
}

// widen has limits let pass what must be.
func (w *write) widen(limits *amounts, was before, obj runtime.Object) {
	// What the system says of a definition, and its deletion.
	if was.exists && (w.system && w.need[bytes] <= ordinary || w.need[bytes] <= mark && marks(was, obj)) {
		limits[definitionBytes] = math.MaxInt64
	}
	switch {
	case !was.exists && w.belongsToSpace(w.name):
		limits[objects], limits[namespaces] = math.MaxInt64, math.MaxInt64
		if w.size <= smallEnough {
			limits[bytes] = math.MaxInt64
		}
	case was.exists && w.need[bytes] <= mark && marks(was, obj):
		limits[bytes], limits[eventBytes] = math.MaxInt64, math.MaxInt64
	case was.exists && w.vital() && w.size <= ordinary:
		limits[bytes] = math.MaxInt64
	case was.exists && w.vital():
		limits[bytes] += min(limits[bytes], math.MaxInt64-limits[bytes])
	case was.exists && w.system && !isEvents(w.resource):
		limits[bytes] += min(limits[bytes]/systemShare, math.MaxInt64-limits[bytes])
	}
}

// marks reports whether the update is the deletion of an object that waits.
func marks(was before, obj runtime.Object) bool {
	m, err := meta.Accessor(obj)
	return err == nil && !was.deleting && m.GetDeletionTimestamp() != nil
}

// exceeded says what there is too little of, and who can change that.
func (w *write) exceeded(d dimension, used, limit int64) error {
	part := ""
	if d == eventBytes {
		part = fmt.Sprintf(" (events have a part in %d of them)", eventShare)
	}
	return apierrors.NewForbidden(w.resource, w.name, tooMuch(d, part, w.need[d], used, limit))
}

func tooMuch(d dimension, part string, need, used, limit int64) error {
	return fmt.Errorf("exceeded limit of the tenant: %s%s, requested: %s, used: %s, limited: %s; "+
		"an administrator of the cluster can raise spec.limits.%s of the Tenant", d.limit(), part, d.text(need),
		d.text(used), d.text(limit), d.limit())
}

func (w *write) release() {
	if w.held {
		w.limits.accounting.release(w.tenant, &w.need, w.named)
		w.held, w.named = false, reservation{}
	}
}

// done ends the write. out is what was written unless there was an error.
func (w *write) done(out runtime.Object, err error) {
	if !w.held {
		return
	}
	if err == nil && out != nil {
		if revision, err := w.Versioner().ObjectResourceVersion(out); err == nil && revision > 0 {
			w.limits.accounting.settle(w.tenant, &w.need, w.key, int64(revision), w.size, w.class(), w.extra,
				w.named)
			w.held, w.named = false, reservation{}
			// Other names can be counted by now, and whoever reads what there is have been here before.
			for c := w.limits.quotas.of(w.tenant); c != w.counting; c = w.limits.quotas.of(w.tenant) {
				w.counting = c
				w.limits.accounting.setQuota(w.tenant, w.key, int64(revision), c.uses(w.resource, out),
					w.limits.quotas.counts(w.tenant, c))
			}
			return
		}
	}
	if unsure(err) {
		// If it is done, it counts as soon as the watch tells of it. Until then others must not have its room, or all
		// of them had it.
		late := *w
		time.AfterFunc(lateWrite, late.release)
		w.held, w.named = false, reservation{}
		return
	}
	w.release()
}

// unsure reports whether a write that failed may be done nevertheless.
func unsure(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	code := status.Code(err)
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		code = e.Code()
	}
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return true
	}
	return false
}

// bounds are the limits of a tenant.
func (l *Limits) bounds(t *tenantapi.Tenant) amounts { return amountsOf(l.limitsOf(t)) }

func amountsOf(own *tenantapi.TenantLimits) amounts {
	a := unbounded()
	count := func(d dimension, n *int64) {
		if n != nil {
			a[d] = *n
		}
	}
	count(namespaces, own.Namespaces)
	count(objects, own.Objects)
	count(pods, own.Pods)
	count(definitions, own.Definitions)
	count(accesses, own.Accesses)
	count(services, own.Services)
	count(nodePorts, own.NodePorts)
	count(loadBalancers, own.LoadBalancers)
	count(balancerPorts, own.LoadBalancerPorts)
	if q := own.CPU; q != nil {
		a[cpu] = q.MilliValue()
	}
	if q := own.Memory; q != nil {
		a[memory] = q.Value()
	}
	if q := own.Storage; q != nil {
		a[volumes] = q.Value()
	}
	if q := own.DefinitionBytes; q != nil {
		a[definitionBytes] = q.Value()
	}
	if q := own.Bytes; q != nil {
		a[bytes] = q.Value()
		a[eventBytes] = a[bytes] / eventShare
	}
	return a
}

// CRDs is how many CRDs a tenant can have, and how many bytes of them; nil is a tenant
// without limits of its own.
func (l *Limits) CRDs(t *tenantapi.Tenant) (many, size int64) {
	b := l.bounds(t)
	return b[definitions], b[definitionBytes]
}

// Share is how much a tenant has of the server's time beside the shares of others; nil is a
// tenant without limits of its own. It is asked for each request, so it makes no list of all limits.
func (l *Limits) Share(t *tenantapi.Tenant) int64 {
	for _, limits := range sourcesOf(l, t) {
		if limits != nil && limits.Share != nil {
			return *limits.Share
		}
	}
	return tenantapi.DefaultShare
}

// limitsOf are those that hold for a tenant: what refuses, counts and shows asks for them here.
func (l *Limits) limitsOf(t *tenantapi.Tenant) *tenantapi.TenantLimits {
	from := sourcesOf(l, t)
	base := from[2]
	if from[1] != nil { // each Over is a list of all limits, for each write
		base = from[1].Over(base)
	}
	return from[0].Over(base)
}

// sourcesOf are the limits that the tenant has itself, those of its template and those of all, each of
// which can be nil. What one says goes before what those behind it say.
func sourcesOf(l *Limits, t *tenantapi.Tenant) (out [3]*tenantapi.TenantLimits) {
	out[2] = l.defaults
	if t == nil {
		return out
	}
	out[0] = t.Spec.Limits
	if t.Spec.Template == "" || l.template == nil {
		return out
	}
	if from := l.template(t.Spec.Template); from != nil {
		out[1] = from.Spec.Limits
	}
	return out
}

func unbounded() (a amounts) {
	for d := range a {
		a[d] = math.MaxInt64
	}
	return a
}
