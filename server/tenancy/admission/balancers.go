package admission

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/server/addons/servicelb"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

// checkBalancer looks at a Service that gets ports of the nodes.
func (g *guard) checkBalancer(ctx context.Context, tenant string, byTenant bool, service, old *core.Service) error {
	wants := func(s *core.Service) bool {
		return s != nil && s.Spec.Type == core.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil
	}
	if g.balancers == nil || !wants(service) {
		return nil
	}
	if byTenant {
		if err := g.checkAllowed(ctx, tenant, service, old, wants(old)); err != nil {
			return err
		}
	}
	if old == nil || len(old.Status.LoadBalancer.Ingress) == 0 {
		return nil
	}
	return g.checkPorts(service, old)
}

// checkAllowed looks whether a tenant may have the ports that a Service wants and
// that it did not want before.
func (g *guard) checkAllowed(ctx context.Context, tenant string, service, old *core.Service, wanted bool) error {
	const all = "true"
	allowed, err := g.ports(ctx, tenant, allowances.LoadBalancers, all)
	if err != nil {
		return err
	}
	said, err := g.tenants.Allowance(ctx, tenant, allowances.LoadBalancers)
	if err != nil {
		return err
	}
	var had []servicelb.Port
	if wanted {
		had = portsOf(old)
	}
	for _, port := range portsOf(service) {
		if said == "" && slices.Contains(g.balancers.Ingress, port) && !slices.Contains(had, port) {
			return fmt.Errorf("port %d of the nodes takes requests for Ingresses of all spaces: use an Ingress, or "+
				"have an administrator of the cluster allow the port by %s of the tenant", port.Number,
				allowances.Field(allowances.LoadBalancers))
		}
		if !allowed.Has(port.Number) && !slices.Contains(had, port) {
			return fmt.Errorf("this space gets no Services of type %s with port %d: an administrator of the cluster "+
				"allows ports by %s of the tenant", core.ServiceTypeLoadBalancer, port.Number,
				allowances.Field(allowances.LoadBalancers))
		}
	}
	return nil
}

// checkPorts looks at the ports that a Service gets while it has addresses of
// nodes: kube-proxy takes traffic to them at once, before anybody decides
// whether they are free.
func (g *guard) checkPorts(service, old *core.Service) error {
	var added []servicelb.Port
	had := portsOf(old)
	for _, port := range portsOf(service) {
		if slices.Contains(had, port) {
			continue
		}
		if why := g.balancers.Refuse(port.Number); why != "" {
			return fmt.Errorf("%s; a Service of type %s cannot have it", why, core.ServiceTypeLoadBalancer)
		}
		added = append(added, port)
	}
	if len(added) == 0 {
		return nil
	}
	others, err := g.services.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing Services: %w", err)
	}
	for _, other := range others {
		if other.Spec.Type != corev1.ServiceTypeLoadBalancer || len(other.Status.LoadBalancer.Ingress) == 0 ||
			other.UID == old.UID {
			continue
		}
		for _, port := range servicelb.PortsOf(other) {
			if slices.Contains(added, port) {
				return fmt.Errorf("port %s of the nodes is taken", port)
			}
		}
	}
	return nil
}

func portsOf(service *core.Service) []servicelb.Port {
	var out []servicelb.Port
	for _, p := range service.Spec.Ports {
		out = append(out, servicelb.Port{Protocol: corev1.Protocol(p.Protocol), Number: p.Port})
	}
	return out
}
