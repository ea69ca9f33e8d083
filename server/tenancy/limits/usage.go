package limits

import (
	"context"
	"math"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// limit is the name of the limit that bounds a dimension.
func (d dimension) limit() string {
	switch d {
	case namespaces:
		return tenantapi.LimitNamespaces
	case objects:
		return tenantapi.LimitObjects
	case definitions:
		return tenantapi.LimitDefinitions
	case loadBalancers:
		return tenantapi.LimitLoadBalancers
	case pods:
		return tenantapi.LimitPods
	case cpu:
		return tenantapi.LimitCPU
	case memory:
		return tenantapi.LimitMemory
	case volumes:
		return tenantapi.LimitStorage
	case services:
		return tenantapi.LimitServices
	case nodePorts:
		return tenantapi.LimitNodePorts
	case balancerPorts:
		return tenantapi.LimitBalancerPorts
	case definitionBytes:
		return tenantapi.LimitDefinitionBytes
	case accesses:
		return tenantapi.LimitAccesses
	}
	return tenantapi.LimitBytes
}

// quantity is an amount of the dimension as people write it.
func (d dimension) quantity(n int64) resource.Quantity {
	switch d {
	case cpu:
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	case bytes, memory, volumes, definitionBytes:
		return *resource.NewQuantity(n, resource.BinarySI)
	}
	return *resource.NewQuantity(n, resource.DecimalSI)
}

// text is an amount in messages.
func (d dimension) text(n int64) string {
	if d == cpu {
		q := d.quantity(n)
		return q.String()
	}
	return strconv.FormatInt(n, 10)
}

// shown are the dimensions that the status of a tenant has, in its order.
func shown() []dimension {
	return []dimension{namespaces, objects, bytes, pods, cpu, memory, volumes, definitions, definitionBytes,
		services, nodePorts, loadBalancers, balancerPorts, accesses}
}

// Usage is what a tenant uses of its limits, nil as long as that is not known.
func (l *Limits) Usage(t *tenantapi.Tenant) []tenantapi.LimitUsage {
	select {
	case <-l.accounting.loaded:
	default:
		return nil
	}
	used, limits := l.accounting.used(t.Name), l.bounds(t)
	out := make([]tenantapi.LimitUsage, 0, int(dimensions))
	for _, d := range shown() {
		u := tenantapi.LimitUsage{Name: d.limit(), Used: d.quantity(used[d]),
			Counts: tenantapi.Counts(d.limit())}
		if limits[d] != math.MaxInt64 {
			limit := d.quantity(limits[d])
			u.Limit = &limit
		}
		out = append(out, u)
	}
	out = append(out, deviceUsage(l, t)...)
	return append(out, quotaUsage(l, t)...)
}

// show has metrics say what tenants use, and may use.
func (l *Limits) show(ctx context.Context) {
	select {
	case <-l.accounting.loaded:
	default:
		return
	}
	quotas := map[string][]string{}
	defer func() { l.shownQuotas = quotas }()
	for _, tenant := range l.accounting.tenants() {
		known, ok := l.users.Load(tenant)
		if !ok {
			continue // none of its users has asked for anything
		}
		named := false
		labels.with(known.(*usage), func(label string) { named = label != other })
		if !named {
			continue // the sum of all others says nothing about anybody
		}
		used, bounds := l.accounting.used(tenant), unbounded()
		t, err := l.tenants.Get(ctx, tenant)
		if err == nil && t != nil {
			bounds = l.bounds(t)
		}
		labels.with(known.(*usage), func(label string) {
			for _, d := range shown() {
				q := d.quantity(used[d])
				use.WithLabelValues(label, d.limit()).Set(q.AsApproximateFloat64())
				if err == nil { // else it stays what it was
					showBound(label, d, bounds[d])
				}
			}
			if quotas[tenant] = l.shownQuotas[tenant]; err == nil && t != nil {
				quotas[tenant] = showQuotas(label, knownQuotaUsage(l, t), l.shownQuotas[tenant])
			}
		})
	}
}

// showQuotas has metrics say what a tenant uses of its limits by name, and of no others that they
// said before. Administrators of the cluster choose these names, and each list of limits has at most
// 64, so they are few.
func showQuotas(tenant string, now []tenantapi.LimitUsage, before []string) (names []string) {
	for _, u := range now {
		names = append(names, u.Name)
		use.WithLabelValues(tenant, u.Name).Set(u.Used.AsApproximateFloat64())
		allowed.WithLabelValues(tenant, u.Name).Set(u.Limit.AsApproximateFloat64())
	}
	for _, name := range before {
		if !slices.Contains(names, name) {
			of := map[string]string{"tenant": tenant, "limit": name}
			use.Delete(of)
			allowed.Delete(of)
		}
	}
	return names
}

// showBound has a metric say what a tenant may use, or say nothing where it has no limit.
func showBound(tenant string, d dimension, most int64) {
	if most == math.MaxInt64 {
		allowed.Delete(map[string]string{"tenant": tenant, "limit": d.limit()})
		return
	}
	q := d.quantity(most)
	allowed.WithLabelValues(tenant, d.limit()).Set(q.AsApproximateFloat64())
}
