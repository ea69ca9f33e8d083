package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	corelisters "k8s.io/client-go/listers/core/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/kubernetes/pkg/apis/authentication"
	core "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/discovery"
	"k8s.io/kubernetes/pkg/apis/networking"
	resourceapi "k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/pod-security-admission/policy"

	"github.com/a4s-io/a4s/server/addons/servicelb"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/reach"
	"github.com/a4s-io/a4s/server/tenancy/reach/inside"
)

// guard refuses what would let a tenant reach past their space through the
// machines and the network that all tenants share. In a cluster of one's own
// these are matters of trust; here they are not.
type guard struct {
	permits
	evaluator policy.Evaluator
	reach     *reach.Rules // set before the API server serves
	services  corelisters.ServiceLister
	balancers *servicelb.Rules // nil if nodes' addresses are not given to Services
	classes   schedulinglisters.PriorityClassLister
	devices   deviceRules
	runtimes  runtimes // set with reach
	places    places   // what it finds nodes by, too
	kinds     *kinds.Table
	groups    map[schema.GroupKind]bool // of pods and the like, that have a priority
}

func newGuard(tenants Tenants, rules Nodes) (*guard, error) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, fmt.Errorf("loading the Pod Security Standards: %w", err)
	}
	return &guard{permits: permits{tenants}, evaluator: evaluator, devices: deviceRules{permits: permits{tenants}},
		runtimes: runtimes{permits: permits{tenants}}, places: places{rules: rules, synced: tenants.Synced},
		kinds: kinds.New(), groups: prioritizedKinds()}, nil
}

// check looks at what would be stored in the space of tenant. byTenant tells
// that the tenant wrote it: as a user, or by what the tenant's admission
// changed in a write of the system. The difference to the old object of attr
// is what is judged.
func (g *guard) check(ctx context.Context, tenant string, byTenant bool, attr admission.Attributes) error {
	if op := attr.GetOperation(); op != admission.Create && op != admission.Update {
		return nil
	}
	sub := attr.GetSubresource()
	if err := checkKind(ctx, g, tenant, byTenant, attr); err != nil {
		return err
	}
	if byTenant {
		if err := g.checkOwners(attr.GetObject(), attr.GetOldObject()); err != nil {
			return err
		}
	}
	switch object := attr.GetObject().(type) {
	case *core.Pod:
		old, _ := attr.GetOldObject().(*core.Pod)
		if err := g.runtimes.check(ctx, tenant, object, old); err != nil || sub == "status" {
			return err
		}
		if err := g.devices.checkPod(ctx, tenant, object, old); err != nil {
			return err
		}
		return g.checkPod(ctx, tenant, object, old)
	case *core.Binding:
		return g.places.checkNode(ctx, tenant, object.Target.Name)
	case *authentication.TokenRequest:
		if byTenant {
			return checkToken(object)
		}
	case *core.Namespace:
		if byTenant {
			old, _ := attr.GetOldObject().(*core.Namespace)
			return g.devices.checkNamespace(ctx, tenant, object, old)
		}
	case *resourceapi.ResourceClaim:
		old, _ := attr.GetOldObject().(*resourceapi.ResourceClaim)
		if old == nil || !equality.Semantic.DeepEqual(old.Spec, object.Spec) {
			return g.devices.checkClaim(ctx, tenant, &object.Spec, "spec")
		}
	case *resourceapi.ResourceClaimTemplate:
		old, _ := attr.GetOldObject().(*resourceapi.ResourceClaimTemplate)
		if old == nil || !equality.Semantic.DeepEqual(old.Spec, object.Spec) {
			return g.devices.checkClaim(ctx, tenant, &object.Spec.Spec, "spec.spec")
		}
	case *core.PersistentVolumeClaim:
		if sub == "" {
			old, _ := attr.GetOldObject().(*core.PersistentVolumeClaim)
			return storage{g.permits}.checkClaim(ctx, tenant, object, old)
		}
	case *core.PersistentVolume:
		old, _ := attr.GetOldObject().(*core.PersistentVolume)
		return storage{g.permits}.checkVolume(ctx, tenant, byTenant, object, old)
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
	case *networking.Ingress:
		if sub == "" {
			old, _ := attr.GetOldObject().(*networking.Ingress)
			return g.checkHosts(ctx, tenant, object, old)
		}
	case *core.Endpoints:
		if byTenant {
			var all []string
			for _, subset := range object.Subsets {
				for _, a := range slices.Concat(subset.Addresses, subset.NotReadyAddresses) {
					all = append(all, a.IP)
				}
			}
			return g.checkAddresses(ctx, tenant, all)
		}
	case *discovery.EndpointSlice:
		if byTenant { // what is an address is one, whatever type the tenant gives it
			var all []string
			for _, e := range object.Endpoints {
				all = append(all, e.Addresses...)
			}
			return g.checkAddresses(ctx, tenant, all)
		}
	}
	return nil
}

// fill gives a pod what its space has for what it does not say, and takes out
// what would have no effect, before upstream's plugins look at it. What a tenant's
// admission makes of it afterwards check judges.
func (g *guard) fill(ctx context.Context, tenant string, attr admission.Attributes) error {
	op := attr.GetOperation()
	pod, ok := attr.GetObject().(*core.Pod)
	if !ok || attr.GetSubresource() != "" || op != admission.Create && op != admission.Update {
		return nil
	}
	old, _ := attr.GetOldObject().(*core.Pod)
	if op == admission.Create {
		if err := g.runtimes.set(ctx, tenant, pod); err != nil {
			return err
		}
	}
	if err := tolerations(g.runtimes).drop(ctx, tenant, pod, old); err != nil || op != admission.Create {
		return err
	}
	return g.giveTolerations(ctx, tenant, pod)
}

// checkAddresses lets tenants send traffic to their own pods and out of the
// cluster. Whatever resolves endpoints, the API server among it, stands behind
// the walls between tenants. When the pod goes, or the cluster grows, then
// server/tenancy/reach/endpoints takes its address off again.
func (g *guard) checkAddresses(ctx context.Context, tenant string, addresses []string) error {
	if len(addresses) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := g.reach.Wait(ctx); err != nil {
		return err
	}
	for _, address := range addresses {
		ip, ok := inside.Parse(address)
		if !ok {
			continue // a name, or what upstream refuses
		}
		if may, err := g.reach.Endpoint(tenant, ip); err != nil {
			return err
		} else if !may {
			return fmt.Errorf("the address %s is inside the cluster and not that of a pod of this space that runs "+
				"and stays", address)
		}
	}
	return nil
}
