package admission

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/addons/servicelb"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

// TestPortsOfBalancers: a Service that has addresses of nodes gets no port there
// that is not free, whatever the load balancer would decide a moment later.
func TestPortsOfBalancers(t *testing.T) {
	services := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	other := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default.t2", Name: "other", UID: "2"}}
	other.Spec.Type = corev1.ServiceTypeLoadBalancer
	other.Spec.Ports = []corev1.ServicePort{{Port: 443}}
	other.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	if err := services.Add(other); err != nil {
		t.Fatal(err)
	}
	service := func(ingress bool, kind core.ServiceType, ports ...int32) *core.Service {
		s := &core.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default.t1", Name: "web", UID: "1"},
			Spec: core.ServiceSpec{Type: kind}}
		for _, p := range ports {
			s.Spec.Ports = append(s.Spec.Ports, core.ServicePort{Protocol: core.ProtocolTCP, Port: p})
		}
		if ingress {
			s.Status.LoadBalancer.Ingress = []core.LoadBalancerIngress{{IP: "192.0.2.1"}}
		}
		return s
	}
	const lb = core.ServiceTypeLoadBalancer
	for name, c := range map[string]struct {
		service, old *core.Service
		refused      bool
	}{
		"new":                       {service(false, lb, 22), nil, false}, // it waits, with an event
		"while it waits":            {service(false, lb, 443), service(false, lb, 80), false},
		"a free port":               {service(true, lb, 80, 81), service(true, lb, 80), false},
		"a port of the node":        {service(true, lb, 80, 6443), service(true, lb, 80), true},
		"a node port":               {service(true, lb, 30001), service(true, lb, 80), true},
		"a port of another Service": {service(true, lb, 443), service(true, lb, 80), true},
		"another type":              {service(true, core.ServiceTypeClusterIP, 443), service(true, lb, 80), false},
		"what it has":               {service(true, lb, 443), service(true, lb, 443), false},
	} {
		g := &guard{permits: permits{annotated{}}, services: corelisters.NewServiceLister(services),
			balancers: &servicelb.Rules{Used: []int32{22, 6443}, First: 30000, Last: 32767}}
		if err := g.checkBalancer(t.Context(), "t1", true, c.service, c.old); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
		g.balancers = nil
		if err := g.checkBalancer(t.Context(), "t1", true, c.service, c.old); err != nil {
			t.Errorf("%s, where there are none: %v", name, err)
		}
	}
}

// TestTenantsWithoutBalancers: an annotation keeps a tenant from ports of the
// nodes; what it has it keeps.
func TestTenantsWithoutBalancers(t *testing.T) {
	service := func(kind core.ServiceType) *core.Service {
		return &core.Service{Spec: core.ServiceSpec{Type: kind, Ports: []core.ServicePort{{Port: 80}}}}
	}
	lb, plain := service(core.ServiceTypeLoadBalancer), service(core.ServiceTypeNodePort)
	other := service(core.ServiceTypeLoadBalancer)
	other.Spec.LoadBalancerClass = new("example.com/lb")
	g := &guard{permits: permits{annotated{allowances.LoadBalancers: "false"}}, balancers: &servicelb.Rules{}}
	for name, c := range map[string]struct {
		byTenant     bool
		service, old *core.Service
		refused      bool
	}{
		"a new one":               {true, lb, nil, true},
		"by a change":             {true, lb, plain, true},
		"one that it has":         {true, lb, lb, false},
		"another type":            {true, plain, nil, false},
		"another load balancer":   {true, other, nil, false},
		"one from administrators": {false, lb, nil, false},
	} {
		if err := g.checkBalancer(t.Context(), "t1", c.byTenant, c.service, c.old); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// annotated are tenants with annotations.
type annotated map[string]string

func (annotated) Exists(context.Context, string) (bool, error)     { return true, nil }
func (annotated) Terminating(string) bool                          { return false }
func (annotated) Synced() bool                                     { return true }
func (annotated) Hosts(context.Context, string) ([]string, error)  { return nil, nil }
func (annotated) Images(context.Context, string) ([]string, error) { return nil, nil }
func (annotated) Scheduling(context.Context, string) (*tenantapi.TenantScheduling, string, error) {
	return nil, "", nil
}
func (a annotated) Allowance(_ context.Context, _, key string) (string, error) {
	return a[key], nil
}
func (annotated) Keeper(context.Context, string, schema.GroupResource, string, string) (string, string, error) {
	return "", "", nil
}
