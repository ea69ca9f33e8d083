package limits

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestNodePortsThatAreAskedFor: a tenant takes no more at once than it may have, and
// what a request wanted is free when it has ended.
func TestNodePortsThatAreAskedFor(t *testing.T) {
	three := int64(3)
	tenant := &tenantapi.Tenant{Spec: tenantapi.TenantSpec{Limits: &tenantapi.TenantLimits{NodePorts: &three}}}
	tenant.Name = "t"
	a := &asking{limits: New(Options{Tenants: &oneTenant{tenant}}), ports: map[string]map[context.Context]int64{}}
	service := func(ports int) *core.Service {
		s := &core.Service{Spec: core.ServiceSpec{Type: core.ServiceTypeNodePort}}
		for i := range ports {
			s.Spec.Ports = append(s.Spec.Ports, core.ServicePort{Port: int32(80 + i)})
		}
		return s
	}
	if err := a.take(t.Context(), "t", service(4), nil); !apierrors.IsForbidden(err) {
		t.Errorf("more than there may be: %v", err)
	}
	ctx, end := context.WithCancel(t.Context())
	if err := a.take(ctx, "t", service(2), nil); err != nil {
		t.Error(err)
	}
	for _, ports := range []int{2, 1, 3} { // as admission is run again for what it has changed
		if err := a.take(ctx, "t", service(ports), nil); err != nil {
			t.Errorf("the same request for %d: %v", ports, err)
		}
	}
	if err := a.take(t.Context(), "t", service(1), nil); !apierrors.IsTooManyRequests(err) {
		t.Errorf("more at once: %v", err)
	}
	end()
	for {
		a.mu.Lock()
		left := len(a.ports)
		a.mu.Unlock()
		if left == 0 {
			break
		}
	}
	if err := a.take(t.Context(), "t", service(3), nil); err != nil {
		t.Errorf("when the request has ended: %v", err)
	}
	no := false
	for name, c := range map[string]struct {
		service *core.Service
		want    int64
	}{
		"plain": {&core.Service{Spec: core.ServiceSpec{Type: core.ServiceTypeClusterIP,
			Ports: []core.ServicePort{{Port: 1}}}}, 0},
		"none given": {&core.Service{Spec: core.ServiceSpec{Type: core.ServiceTypeLoadBalancer,
			AllocateLoadBalancerNodePorts: &no, Ports: []core.ServicePort{{Port: 1}, {Port: 2, NodePort: 30000}}}}, 1},
		"for its health": {&core.Service{Spec: core.ServiceSpec{Type: core.ServiceTypeLoadBalancer,
			ExternalTrafficPolicy: core.ServiceExternalTrafficPolicyLocal, Ports: []core.ServicePort{{Port: 1}}}}, 2},
		"one number": {&core.Service{Spec: core.ServiceSpec{Type: core.ServiceTypeNodePort, Ports: []core.ServicePort{
			{Port: 53, Protocol: core.ProtocolTCP, NodePort: 30053}, {Port: 53, Protocol: core.ProtocolUDP}}}}, 1},
	} {
		if got := wantedPorts(c.service); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
