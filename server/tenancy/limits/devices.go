package limits

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	resourceapi "k8s.io/kubernetes/pkg/apis/resource"
	quotacore "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// namedClasses is how many classes without a limit the status of a tenant names.
// Claims can ask for classes that do not exist.
const namedClasses = 16

// claim is what a claim of devices costs: as many as it can be given at most.
type claim struct {
	devices numbers
	// all are the classes of which it wants as many as there are.
	all []string
}

// evaluator is upstream's, which knows how quotas count claims. It looks nothing up.
var evaluator = sync.OnceValue(func() quota.Evaluator {
	return quotacore.NewResourceClaimEvaluator(nil, extendedresourcecache.NewExtendedResourceCache(klog.Background()),
		nil, nil)
})

// claimOf is nil for a claim that asks for nothing.
func claimOf(c *resourceapi.ResourceClaim) *claim {
	usage, err := evaluator().Usage(c)
	if err != nil {
		return nil // it knows this type
	}
	out := &claim{devices: numbers{}}
	for name, n := range usage {
		if class, ok := strings.CutSuffix(string(name), corev1.ResourceClaimsPerClass); ok && n.Sign() > 0 {
			out.devices[class] = min(n.Value(), most)
		}
	}
	for i := range c.Spec.Devices.Requests {
		request := &c.Spec.Devices.Requests[i]
		if exactly := request.Exactly; exactly != nil {
			out.note(exactly.DeviceClassName, exactly.AllocationMode)
		}
		for j := range request.FirstAvailable {
			out.note(request.FirstAvailable[j].DeviceClassName, request.FirstAvailable[j].AllocationMode)
		}
	}
	if len(out.devices)+len(out.all) == 0 {
		return nil
	}
	return out
}

// note remembers what has no number.
func (c *claim) note(class string, mode resourceapi.DeviceAllocationMode) {
	if mode != resourceapi.DeviceAllocationModeExactCount && !slices.Contains(c.all, class) {
		c.all = append(c.all, class)
	}
}

// reserveDevices takes what a claim wants more than there was of it.
func (w *write) reserveDevices(own *tenantapi.TenantLimits, was before) error {
	limits := own.Devices
	if w.extra.claim == nil || len(limits) == 0 {
		return nil
	}
	need := maps.Clone(w.extra.claim.devices)
	if was.exists {
		need.add(w.limits.accounting.heldDevices(w.tenant, w.key), -1)
		maps.DeleteFunc(need, func(_ string, n int64) bool { return n <= 0 })
	} else {
		for _, class := range w.extra.claim.all {
			if limit, bounded := limits[class]; bounded {
				return apierrors.NewForbidden(w.resource, w.name, fmt.Errorf("the claim wants all devices of the "+
					"class %s, of which the tenant can have %d: say how many by allocationMode ExactCount and count",
					class, limit))
			}
		}
	}
	if class, used, ok := w.limits.accounting.reserveDevices(w.tenant, need, limits); !ok {
		name := tenantapi.LimitOfDevices(class)
		return apierrors.NewForbidden(w.resource, w.name, fmt.Errorf("exceeded limit of the tenant: %s, requested: "+
			"%d, used: %d, limited: %d; an administrator of the cluster can raise spec.limits.%s of the Tenant", name,
			need[class], used, limits[class], tenantapi.LimitDevices))
	}
	w.named.devices = need
	return nil
}

// reserveDevices is reserve for devices; it says of which class there are too few.
func (l *accounting) reserveDevices(tenant string, need numbers, limits map[string]int64) (
	lack string, used int64, ok bool,
) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(tenant)
	lack, used, ok = a.devices.reserve(need, func(class string) (int64, bool) {
		most, bounded := limits[class]
		return most, bounded
	})
	l.forgetEmpty(tenant, a)
	return lack, used, ok
}

// takeDevices counts those of a claim.
func (a *account) takeDevices(c *claim, times int64) {
	if c != nil {
		a.devices.take(c.devices, times)
	}
}

// heldDevices is what is known of a key.
func (l *accounting) heldDevices(tenant, key string) numbers {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[tenant]; a != nil {
		if c := a.charges[l.id(key)].claim; c != nil {
			return c.devices // nobody changes them
		}
	}
	return nil
}

// usedDevices is what a tenant uses.
func (l *accounting) usedDevices(tenant string) numbers {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[tenant]; a != nil {
		return a.devices.used.values()
	}
	return nil
}

// deviceUsage are the classes that have a limit, and of the others those of which
// most is used.
func deviceUsage(l *Limits, t *tenantapi.Tenant) []tenantapi.LimitUsage {
	used, limits := l.accounting.usedDevices(t.Name), l.limitsOf(t).Devices
	var out []tenantapi.LimitUsage
	add := func(class string, limit int64) {
		u := tenantapi.LimitUsage{Name: tenantapi.LimitOfDevices(class),
			Used:   *resource.NewQuantity(used[class], resource.DecimalSI),
			Counts: tenantapi.Counts(tenantapi.LimitOfDevices(class))}
		if limit != math.MaxInt64 {
			u.Limit = resource.NewQuantity(limit, resource.DecimalSI)
		}
		out = append(out, u)
		delete(used, class)
	}
	for _, class := range slices.Sorted(maps.Keys(limits)) {
		add(class, limits[class])
	}
	others := slices.SortedFunc(maps.Keys(used), func(a, b string) int {
		return cmp.Or(cmp.Compare(used[b], used[a]), cmp.Compare(a, b))
	})
	for _, class := range others[:min(len(others), namedClasses)] {
		add(class, math.MaxInt64)
	}
	return out
}
