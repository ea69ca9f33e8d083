package limits

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	quotacore "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// countedForReaders is of how many tenants at once it is counted what they have because somebody
// reads the Tenant: a list can have thousands, and writes come first.
const countedForReaders = 2

// quotaUse is what an object uses of what quotas of its tenant name.
type quotaUse struct{ uses numbers }

// counting says what is counted of a tenant by names of quotas. Nothing changes but done,
// and err before it.
type counting struct {
	names     map[string]tenantapi.Quota
	resources map[schema.GroupResource][]string // their names
	done      chan struct{}                     // closed when what there was is counted, too
	err       error
}

func newCounting(limits map[string]resource.Quantity) *counting {
	c := &counting{names: map[string]tenantapi.Quota{}, resources: map[schema.GroupResource][]string{},
		done: make(chan struct{})}
	for name := range limits {
		if of, err := tenantapi.QuotaOf(name); err == nil { // else the Tenant is not written
			c.names[name] = of
			c.resources[of.Resource] = append(c.resources[of.Resource], name)
		}
	}
	return c
}

// join has what another one counts counted, too.
func (c *counting) join(other *counting) {
	for name, of := range other.names {
		if _, ok := c.names[name]; !ok {
			c.names[name] = of
			c.resources[of.Resource] = append(c.resources[of.Resource], name)
		}
	}
}

// covers reports whether all these limits are counted that can be.
func (c *counting) covers(limits map[string]resource.Quantity) bool {
	for name := range limits {
		if _, ok := c.names[name]; ok {
			continue
		}
		if _, err := tenantapi.QuotaOf(name); err == nil { // else by another version
			return false
		}
	}
	return true
}

// values reports whether what objects of a resource hold is counted, not only how many
// there are.
func (c *counting) values(r schema.GroupResource) bool {
	return slices.ContainsFunc(c.resources[r], func(name string) bool { return !c.names[name].Objects })
}

// uses is what an object of a resource uses, nil for nothing. The object can be nil if
// nobody can read it.
func (c *counting) uses(r schema.GroupResource, obj runtime.Object) *quotaUse {
	if c == nil || len(c.resources[r]) == 0 {
		return nil
	}
	out := numbers{}
	var holds corev1.ResourceList
	if e := quotaEvaluators()[r]; e != nil && obj != nil && c.values(r) {
		if found, err := e.Usage(obj); err == nil { // it knows its own type
			holds = found
		}
	}
	for _, name := range c.resources[r] {
		if c.names[name].Objects {
			out[name] = 1
		} else if n := counted(holds[corev1.ResourceName(name)], c.names[name].Milli); n > 0 {
			out[name] = n
		}
	}
	if len(out) == 0 {
		return nil
	}
	return &quotaUse{out}
}

// quotaEvaluators are upstream's, which know how quotas count what objects hold. They look
// nothing up, so that an object always uses the same.
var quotaEvaluators = sync.OnceValue(func() map[schema.GroupResource]quota.Evaluator {
	all := map[schema.GroupResource]quota.Evaluator{}
	for _, e := range []quota.Evaluator{
		quotacore.NewPodEvaluator(nil, stoppedClock{}), quotacore.NewServiceEvaluator(nil),
		quotacore.NewPersistentVolumeClaimEvaluator(nil), evaluator(),
	} {
		all[e.GroupResource()] = e
	}
	return all
})

// stoppedClock shows one time. Upstream does not count a pod any more when the time
// to end it is over, wherever it may run on. Here it counts until it has ended or is gone.
type stoppedClock struct{ clock.RealClock }

// Now implements clock.PassiveClock.
func (stoppedClock) Now() time.Time { return time.Time{} }

// quotas are what is counted by names, of the tenants that have such limits.
type quotas struct {
	tenants sync.Map     // tenant -> *counting
	readers atomic.Int32 // who counts because somebody reads a Tenant
}

// counts tells, whenever it is asked, whether a tenant is counted by c.
func (q *quotas) counts(tenant string, c *counting) func() bool {
	return func() bool { return q.of(tenant) == c }
}

// of is nil for a tenant without.
func (q *quotas) of(tenant string) *counting {
	if c, ok := q.tenants.Load(tenant); ok {
		return c.(*counting)
	}
	return nil
}

// want has what the limits name counted, besides what is counted already: who still sees the
// Tenant as it was before does not have it counted anew. The second is true for who has to count
// what there is.
func (q *quotas) want(tenant string, limits map[string]resource.Quantity) (c *counting, begins bool) {
	for {
		now := q.of(tenant)
		if now != nil && now.covers(limits) {
			return now, false
		}
		c = newCounting(limits)
		if now != nil {
			c.join(now)
		}
		if now != nil && q.tenants.CompareAndSwap(tenant, now, c) {
			return c, true
		}
		if now == nil {
			if _, other := q.tenants.LoadOrStore(tenant, c); !other {
				return c, true
			}
		}
	}
}

// countQuota has counted what these limits name.
func (l *Limits) countQuota(tenant string, limits map[string]resource.Quantity) *counting {
	c, begins := l.quotas.want(tenant, limits)
	if begins {
		go l.recount(tenant, c)
	}
	return c
}

// known waits until what there was is counted, too.
func (c *counting) known(ctx context.Context) error {
	select {
	case <-c.done:
		return c.err
	default:
	}
	seat := fairqueue.Of(ctx)
	seat.BeginWait()
	defer seat.EndWait()
	timeout := time.NewTimer(loadTimeout)
	defer timeout.Stop()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return context.DeadlineExceeded
	}
}

// reserveQuota takes what the object uses more than it did of what quotas of the tenant name.
func (w *write) reserveQuota(
	ctx context.Context, limits map[string]resource.Quantity, was before, obj runtime.Object,
) error {
	if len(limits) == 0 {
		w.counting = w.limits.quotas.of(w.tenant)
		w.extra.quota = w.counting.uses(w.resource, obj)
		return nil
	}
	for {
		c := w.limits.countQuota(w.tenant, limits)
		w.counting, w.extra.quota = c, c.uses(w.resource, obj)
		if w.extra.quota == nil || !was.exists && w.belongsToSpace(w.name) ||
			was.exists && (!c.values(w.resource) || marks(was, obj)) {
			return nil // it takes nothing more
		}
		// The system waits, too: nothing that serves is needed to count.
		err := c.known(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errRecounted):
			continue
		case err != nil:
			return notCounted()
		}
		need := maps.Clone(w.extra.quota.uses)
		if was.exists {
			need.add(w.limits.accounting.heldQuota(w.tenant, w.key), -1)
			maps.DeleteFunc(need, func(name string, n int64) bool {
				return n <= 0 || c.names[name].Objects // also if nobody has told of it yet
			})
		}
		lack, used, err := w.limits.accounting.reserveQuota(w.tenant, need, limits,
			w.limits.quotas.counts(w.tenant, c))
		switch {
		case errors.Is(err, errRecounted):
			continue
		case err != nil:
			return exceededQuota(w.resource, w.name, lack, need[lack], used, limits[lack])
		}
		w.named.quota = need
		return nil
	}
}

// quotaOfService refuses a Service that the storage would refuse afterwards: upstream does not
// give back the ports of a change that fails there.
func quotaOfService(ctx context.Context, l *Limits, t *tenantapi.Tenant, service, old *core.Service) error {
	limits := l.limitsOf(t).Quota
	if t == nil || len(limits) == 0 {
		return nil
	}
	c, services := l.countQuota(t.Name, limits), schema.GroupResource{Resource: "services"}
	uses := c.uses(services, service)
	if uses == nil {
		return nil
	}
	if err := c.known(ctx); err != nil {
		return notCounted()
	}
	need := maps.Clone(uses.uses)
	if old != nil {
		if had := c.uses(services, old); had != nil {
			need.add(had.uses, -1)
		}
	}
	used := l.accounting.usedQuota(t.Name)
	for _, name := range slices.Sorted(maps.Keys(need)) {
		limit, bounded := limits[name]
		if n := need[name]; bounded && n > 0 && n > quotaNumber(name, limit)-used[name] {
			return exceededQuota(services, service.Name, name, n, used[name], limit)
		}
	}
	return nil
}

func notCounted() error {
	return apierrors.NewServiceUnavailable("what the tenant uses of its spec.limits." + tenantapi.LimitQuota +
		" is still being counted: try again later")
}

func exceededQuota(of schema.GroupResource, object, name string, need, used int64, limit resource.Quantity) error {
	text := func(n int64) string { q := quotaQuantity(name, n, limit.Format); return q.String() }
	return apierrors.NewForbidden(of, object, fmt.Errorf("exceeded limit of the tenant: %s, requested: "+
		"%s, used: %s, limited: %s; an administrator of the cluster can raise spec.limits.%s of the Tenant",
		tenantapi.LimitOfQuota(name), text(need), text(used), limit.String(), tenantapi.LimitQuota))
}

// quotaQuantity is a number as people write it.
func quotaQuantity(name string, n int64, format resource.Format) resource.Quantity {
	if of, err := tenantapi.QuotaOf(name); err == nil && of.Milli {
		return *resource.NewMilliQuantity(n, format)
	}
	return *resource.NewQuantity(n, format)
}

// quotaNumber is a limit as a number.
func quotaNumber(name string, limit resource.Quantity) int64 {
	if of, err := tenantapi.QuotaOf(name); err == nil && of.Milli {
		return limit.MilliValue()
	}
	return limit.Value()
}

// countForReader has counted what these limits name, if few readers have at the moment.
func (l *Limits) countForReader(tenant string, limits map[string]resource.Quantity) {
	if l.quotas.readers.Add(1) > countedForReaders {
		l.quotas.readers.Add(-1)
		return
	}
	c, begins := l.quotas.want(tenant, limits)
	if !begins {
		l.quotas.readers.Add(-1)
		return
	}
	go func() {
		defer l.quotas.readers.Add(-1)
		l.recount(tenant, c)
	}()
}

// quotaUsage is what a tenant uses of its limits by names, nothing as long as it is not known:
// then it is counted for who reads it the next time.
func quotaUsage(l *Limits, t *tenantapi.Tenant) []tenantapi.LimitUsage {
	limits := l.limitsOf(t).Quota
	if len(limits) == 0 {
		return nil
	}
	if c := l.quotas.of(t.Name); (c == nil || !c.covers(limits)) && t.DeletionTimestamp == nil {
		l.countForReader(t.Name, limits)
		return nil
	}
	return knownQuotaUsage(l, t)
}

// knownQuotaUsage is the same, and has nothing counted.
func knownQuotaUsage(l *Limits, t *tenantapi.Tenant) []tenantapi.LimitUsage {
	limits := l.limitsOf(t).Quota
	c := l.quotas.of(t.Name)
	if len(limits) == 0 || c == nil || !c.covers(limits) {
		return nil
	}
	select {
	case <-c.done:
		if c.err != nil {
			return nil
		}
	default:
		return nil
	}
	used := l.accounting.usedQuota(t.Name)
	var out []tenantapi.LimitUsage
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		limit := limits[name].DeepCopy()
		called := tenantapi.LimitOfQuota(name)
		out = append(out, tenantapi.LimitUsage{Name: called, Used: quotaQuantity(name, used[name], limit.Format),
			Limit: &limit, Counts: tenantapi.Counts(called)})
	}
	return out
}
