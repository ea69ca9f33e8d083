package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	corelisters "k8s.io/client-go/listers/core/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	core "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/discovery"
	"k8s.io/pod-security-admission/policy"

	"github.com/a4s-io/a4s/server/addons/servicelb"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/reach"
)

// guard refuses what would let a tenant reach past their space through the
// machines and the network that all tenants share. In a cluster of one's own
// these are matters of trust; here they are not.
type guard struct {
	tenants   Tenants
	evaluator policy.Evaluator
	reach     *reach.Rules // set before the API server serves
	services  corelisters.ServiceLister
	balancers *servicelb.Rules // nil if nodes' addresses are not given to Services
	classes   schedulinglisters.PriorityClassLister
	kinds     *kinds.Table
}

func newGuard(tenants Tenants) (*guard, error) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, fmt.Errorf("loading the Pod Security Standards: %w", err)
	}
	return &guard{tenants: tenants, evaluator: evaluator, kinds: kinds.New()}, nil
}

// check looks at what would be stored in the space of tenant. byTenant tells
// that the tenant wrote it: as a user, or by what the tenant's admission
// changed in a write of the system. The difference to the old object of attr
// is what is judged.
func (g *guard) check(ctx context.Context, tenant string, byTenant bool, attr admission.Attributes) error {
	if op := attr.GetOperation(); op != admission.Create && op != admission.Update {
		return nil
	}
	resource, sub := attr.GetResource().GroupResource(), attr.GetSubresource()
	switch resource {
	case schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "services"}:
		if byTenant && sub == "status" {
			if err := checkStatus(attr.GetObject(), attr.GetOldObject()); err != nil {
				return err
			}
		}
	}
	if byTenant {
		if err := g.checkOwners(attr.GetObject(), attr.GetOldObject()); err != nil {
			return err
		}
	}
	switch object := attr.GetObject().(type) {
	case *core.Pod:
		if sub != "status" {
			old, _ := attr.GetOldObject().(*core.Pod)
			return g.checkPod(ctx, tenant, object, old)
		}
	case *core.PersistentVolumeClaim:
		if byTenant && attr.GetOperation() == admission.Create && sub == "" {
			return g.checkClaim(ctx, tenant, object)
		}
	case *core.PersistentVolume:
		old, _ := attr.GetOldObject().(*core.PersistentVolume)
		return g.checkVolume(ctx, tenant, byTenant, object, old)
	case *core.Service:
		//lint:ignore SA1019 it is deprecated just for what is refused here
		if byTenant && len(object.Spec.ExternalIPs) > 0 {
			return errors.New("spec.externalIPs would catch the traffic of other tenants to these addresses; " +
				"use a Service of type LoadBalancer or NodePort")
		}
		if sub == "" {
			old, _ := attr.GetOldObject().(*core.Service)
			return g.checkBalancer(ctx, tenant, byTenant, object, old)
		}
	case *core.Endpoints:
		if byTenant {
			for _, subset := range object.Subsets {
				for _, a := range append(subset.Addresses[:len(subset.Addresses):len(subset.Addresses)],
					subset.NotReadyAddresses...) {
					if err := g.checkAddress(tenant, a.IP); err != nil {
						return err
					}
				}
			}
		}
	case *discovery.EndpointSlice:
		if byTenant && object.AddressType != discovery.AddressTypeFQDN {
			for _, e := range object.Endpoints {
				for _, a := range e.Addresses {
					if err := g.checkAddress(tenant, a); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// checkAddress lets tenants send traffic to their own pods and out of the
// cluster. Whatever resolves endpoints, the API server among it, stands behind
// the walls between tenants. When the pod goes, server/tenancy/reach/endpoints takes its
// address off again.
func (g *guard) checkAddress(tenant, address string) error {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nil // upstream refuses it
	}
	if !g.reach.Inside(ip) {
		return nil
	}
	if own, err := g.reach.KeptByPod(tenant, ip); err != nil || own {
		return err
	}
	return fmt.Errorf("the address %s is inside the cluster and not that of a pod of this space that runs and stays",
		address)
}
