package limits

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/core"
)

// asking is how many node ports the requests of tenants that are under way want.
// Upstream takes them before anything is written, and gives them back when that is
// refused: until then nobody else could have them.
type asking struct {
	limits *Limits
	mu     sync.Mutex
	ports  map[string]map[context.Context]int64 // by tenant and request
}

// NodePorts is what is asked before a request, whose context it is, takes node ports
// for a Service in place of old, which is nil for a new one. It refuses what the
// storage would refuse afterwards, and has a tenant take no more at once than it may
// have. It can be asked again when admission has changed the Service.
func NodePorts(l *Limits) func(ctx context.Context, tenant string, service, old *core.Service) error {
	return (&asking{limits: l, ports: map[string]map[context.Context]int64{}}).take
}

func (a *asking) take(ctx context.Context, tenant string, service, old *core.Service) error {
	l := a.limits
	n := wantedPorts(service)
	if old != nil {
		n -= nodePortsOf(old)
	}
	if n <= 0 {
		return nil
	}
	t, err := l.tenants.Get(ctx, tenant)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("looking for the tenant: %w", err))
	}
	limit, used := l.bounds(t)[nodePorts], l.accounting.used(tenant)[nodePorts]
	if n > limit-used {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, service.Name,
			tooMuch(nodePorts, "", n, used, limit))
	}
	if err := quotaOfService(ctx, l, t, service, old); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.ports[tenant]
	others := -of[ctx]
	for _, asked := range of {
		others += asked
	}
	if others > limit-n {
		return apierrors.NewTooManyRequests(fmt.Sprintf("the tenant asks for more node ports at once than it may "+
			"have, which are %d: try again later", limit), retryAfter)
	}
	if of == nil {
		of = map[context.Context]int64{}
		a.ports[tenant] = of
	}
	if _, known := of[ctx]; !known {
		context.AfterFunc(ctx, func() { a.end(ctx, tenant) })
	}
	of[ctx] = max(of[ctx], n)
	return nil
}

// end forgets what a request asked for.
func (a *asking) end(ctx context.Context, tenant string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if delete(a.ports[tenant], ctx); len(a.ports[tenant]) == 0 {
		delete(a.ports, tenant)
	}
}

// wantedPorts is how many node ports a Service will have. Upstream gives a port for
// TCP and UDP the same one.
func wantedPorts(s *core.Service) int64 {
	balancer := s.Spec.Type == core.ServiceTypeLoadBalancer
	given := !balancer || s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts
	if s.Spec.Type != core.ServiceTypeNodePort && !balancer {
		return 0
	}
	named, unnamed := map[int32]bool{}, map[int32]bool{}
	for _, p := range s.Spec.Ports {
		if p.NodePort == 0 && given {
			unnamed[p.Port] = true
		}
	}
	for _, p := range s.Spec.Ports {
		if p.NodePort != 0 {
			named[p.NodePort] = true
			delete(unnamed, p.Port)
		}
	}
	n := int64(len(named) + len(unnamed))
	if balancer && s.Spec.ExternalTrafficPolicy == core.ServiceExternalTrafficPolicyLocal {
		n++ // for the check of its health
	}
	return n
}
