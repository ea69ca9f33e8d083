package spaces_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
)

func serviceOf(name string, kind corev1.ServiceType, ports int) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: kind}}
	for i := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(7000 + i)})
	}
	return s
}

// TestWallW11NodePorts: with the limits that every tenant has, one cannot take the
// node ports, the ports of load balancers and the addresses of Services that all
// others need, however many it asks for at once.
func TestWallW11NodePorts(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.bareTenant(t, "a"), p.bareTenant(t, "b")
	ctx := t.Context()
	most := *tenantapi.DefaultLimits().NodePorts
	services := a.client.CoreV1().Services("default")
	create := func(s *corev1.Service) error {
		_, err := services.Create(ctx, s, metav1.CreateOptions{})
		return err
	}
	eventually(t, "the limits to be counted", func(context.Context) (bool, error) {
		u := p.usage(t, "a", tenantapi.LimitNodePorts)
		return u.Limit != nil && u.Limit.Value() == most, nil
	})
	// One Service with more ports than there are, and several at once with all that
	// there may be; meanwhile everybody else gets some.
	refused(t, "a Service that wants all", create(serviceOf("all", corev1.ServiceTypeNodePort, 2700)),
		fmt.Sprintf("nodePorts, requested: 2700, used: 0, limited: %d", most), "spec.limits.nodePorts")
	var group sync.WaitGroup
	var made atomic.Int64
	for i := range 40 {
		group.Go(func() {
			err := create(serviceOf(fmt.Sprintf("many-%d", i), corev1.ServiceTypeNodePort, int(most)*2/5))
			switch {
			case err == nil:
				made.Add(1)
			case strings.Contains(err.Error(), "range is full"):
				t.Errorf("one tenant takes all: %v", err)
			case !apierrors.IsForbidden(err) && !apierrors.IsTooManyRequests(err):
				t.Error(err)
			}
		})
	}
	for i := range 10 {
		for _, other := range []*space{b, p.as(t, "system", p.Admin)} {
			if _, err := other.client.CoreV1().Services("default").Create(ctx, serviceOf(fmt.Sprintf("other-%d", i),
				corev1.ServiceTypeNodePort, 2), metav1.CreateOptions{}); err != nil {
				t.Errorf("a Service of %s meanwhile: %v", other.name, err)
			}
		}
	}
	group.Wait()
	if n := made.Load(); n < 1 || n > 2 {
		t.Errorf("%d Services of two fifths of the limit were made", n)
	}
	// One after the other there is room for two.
	for i := range 3 {
		if err := create(serviceOf(fmt.Sprintf("more-%d", i), corev1.ServiceTypeNodePort, int(most)*2/5)); err == nil {
			made.Add(1)
		}
	}
	if n := made.Load(); n != 2 {
		t.Errorf("%d Services", n)
	}
	eventually(t, "the node ports of two Services to be used", func(context.Context) (bool, error) {
		u := p.usage(t, "a", tenantapi.LimitNodePorts)
		return u.Used.Value() == most*4/5, nil
	})
	testPortsOfChanges(t, p, a)
	// What a policy of the tenant asks for comes after the first look.
	a.mutates(t, "services", "has(object.metadata.labels)", `Object{spec: Object.spec{type: 'NodePort'}}`)
	eventually(t, "a policy that asks for all to be refused", func(context.Context) (bool, error) {
		all := serviceOf("policy", corev1.ServiceTypeClusterIP, 2760)
		all.Labels = map[string]string{"a": "b"}
		_, err := services.Create(ctx, all, metav1.CreateOptions{})
		if err == nil { // it does not work yet
			return false, services.Delete(ctx, "policy", metav1.DeleteOptions{})
		}
		refused(t, "a Service that a policy changes", err, "nodePorts, requested: 2760")
		return true, nil
	})
}

// testPortsOfChanges: what becomes of a Service counts, and what it gives back.
func testPortsOfChanges(t *testing.T, p *plane, a *space) {
	ctx := t.Context()
	services := a.client.CoreV1().Services("default")
	list, err := services.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Items {
		if err := services.Delete(ctx, s.Name, metav1.DeleteOptions{}); err != nil && s.Name != "kubernetes" {
			t.Fatal(err)
		}
	}
	p.bounded(t, "a", `{"nodePorts":6,"loadBalancerPorts":4,"services":4}`)
	is := func(name string, n int64) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d %s to be used", n, name), func(context.Context) (bool, error) {
			u := p.usage(t, "a", name)
			return u.Used.Value() == n, nil
		})
	}
	create := func(s *corev1.Service) error {
		_, err := services.Create(ctx, s, metav1.CreateOptions{})
		return err
	}
	patch := func(name, body string) error {
		_, err := services.Patch(ctx, name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	is(tenantapi.LimitNodePorts, 0)
	dns := serviceOf("dns", corev1.ServiceTypeNodePort, 1)
	dns.Spec.Ports = []corev1.ServicePort{{Name: "tcp", Port: 53, Protocol: "TCP"}, {Name: "udp", Port: 53,
		Protocol: "UDP"}}
	if err := errors.Join(create(dns), create(serviceOf("plain", corev1.ServiceTypeClusterIP, 6))); err != nil {
		t.Fatal(err)
	}
	is(tenantapi.LimitNodePorts, 1)
	is(tenantapi.LimitServices, 2)
	refused(t, "another type", patch("plain", `{"spec":{"type":"NodePort"}}`),
		"nodePorts, requested: 6, used: 1, limited: 6")
	refused(t, "more ports of load balancers", patch("plain",
		`{"spec":{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false}}`),
		"loadBalancerPorts, requested: 6, used: 0, limited: 4")
	balancer := serviceOf("balancer", corev1.ServiceTypeLoadBalancer, 2)
	balancer.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	if err := create(balancer); err != nil {
		t.Fatal(err)
	}
	is(tenantapi.LimitNodePorts, 4) // one of them for the check of its health
	is(tenantapi.LimitBalancerPorts, 2)
	refused(t, "appended ports", patch("balancer",
		`{"spec":{"ports":[{"name":"x","port":90},{"name":"y","port":91},{"name":"z","port":92}]}}`),
		"nodePorts, requested: 3, used: 4, limited: 6")
	refused(t, "chosen ports", patch("dns", `{"spec":{"ports":[{"name":"a","port":1,"nodePort":31001},`+
		`{"name":"b","port":2,"nodePort":31002},{"name":"c","port":3,"nodePort":31003}]}}`), "nodePorts, requested: 3")
	if code, answer := do(t, a.config, http.MethodPost, "/api/v1/namespaces/default/services?dryRun=All",
		`{"metadata":{"name":"x"},"spec":{"type":"NodePort","ports":[{"port":1}]}}`, nil); code != http.StatusCreated {
		t.Errorf("a dry run: %d %.300s", code, answer)
	}
	// What is there stays, and is given back.
	p.bounded(t, "a", `{"nodePorts":1,"services":4}`)
	if err := errors.Join(patch("balancer", `{"metadata":{"labels":{"a":"b"}}}`),
		patch("balancer", `{"spec":{"type":"ClusterIP","externalTrafficPolicy":null}}`)); err != nil {
		t.Error(err)
	}
	is(tenantapi.LimitNodePorts, 1)
	is(tenantapi.LimitBalancerPorts, 0)
	headless := serviceOf("headless", corev1.ServiceTypeClusterIP, 1)
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	if err := create(headless); err != nil {
		t.Error(err)
	}
	refused(t, "a Service too many", create(serviceOf("fifth", corev1.ServiceTypeClusterIP, 1)),
		"services, requested: 1, used: 4, limited: 4", "spec.limits.services")
}
