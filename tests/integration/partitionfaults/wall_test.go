package partitionfaults_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/hollownode"
	"github.com/a4s-io/a4s/tests/hosts"
)

// side is a partition with a tenant, and what is inside because of it.
type side struct {
	*server
	tenant string
	client kubernetes.Interface // of the tenant's administrator
	// pod is the address of a pod of the tenant, and node that of a node.
	pod, node string
	inside    []string
}

// newSide makes the tenant, its pod and a node.
func newSide(t *testing.T, s *server, partition, tenant, pod, service, node string) *side {
	t.Helper()
	ctx := t.Context()
	_, err := s.tenants(t).Create(ctx, &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: tenant},
		Spec: tenantapi.TenantSpec{Partition: partition}}, metav1.CreateOptions{})
	must(t, err)
	config := tenantapi.InSpace(s.config, tenant)
	config.Impersonate = rest.ImpersonationConfig{UserName: "admin", Extra: map[string][]string{space.Extra: {tenant}}}
	out := &side{server: s, tenant: tenant, pod: pod, node: node, inside: []string{pod, service, node, s.ip}}
	out.client, err = kubernetes.NewForConfig(config)
	must(t, err)
	made := hollownode.New("node-of-"+partition, nil)
	made.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: node}}
	_, err = s.client.CoreV1().Nodes().Create(ctx, made, metav1.CreateOptions{})
	must(t, err)
	hosts.Until(t, settled, "tenant "+tenant+" can make pods", func(ctx context.Context) error {
		_, err := out.client.CoreV1().Pods("default").Create(ctx, simple("web"), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	status := fmt.Sprintf(`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}]}}`, pod, pod)
	_, err = s.client.CoreV1().Pods("default."+tenant).Patch(ctx, "web", types.MergePatchType, []byte(status),
		metav1.PatchOptions{}, "status")
	must(t, err)
	return out
}

// simple is a pod.
func simple(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none.invalid/none:1"}}}}
}

// slice is one that the tenant writes.
func slice(name string, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name},
		AddressType: discoveryv1.AddressTypeIPv4}
	for _, a := range addresses {
		if netip.MustParseAddr(a).Is6() {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return s
}

// writes has the tenant write endpoints at an address.
func (s *side) writes(ctx context.Context, address string) error {
	_, err := s.client.DiscoveryV1().EndpointSlices("default").Create(ctx, slice("dry", address),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || netip.MustParseAddr(address).Is6() {
		return err
	}
	//lint:ignore SA1019 tenants still write them
	_, err = s.client.CoreV1().Endpoints("default").Create(ctx, &corev1.Endpoints{
		//lint:ignore SA1019 tenants still write them
		ObjectMeta: metav1.ObjectMeta{Name: "dry"}, Subsets: []corev1.EndpointSubset{{
			NotReadyAddresses: []corev1.EndpointAddress{{IP: address}}}}},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// asks has a webhook of the tenant at an address asked, and returns what came of it.
func (s *side) asks(t *testing.T, address string) error {
	t.Helper()
	url, name := "https://"+net.JoinHostPort(address, "6443")+"/", "at.example.com"
	all, none, fail := admissionregistrationv1.OperationAll, admissionregistrationv1.SideEffectClassNone,
		admissionregistrationv1.Fail
	hooks := s.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := hooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "at"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: name, ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}, SideEffects: &none,
			FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: new(int32(2)),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{all}, Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}}}}},
		metav1.CreateOptions{})
	must(t, err)
	create := func(ctx context.Context) error {
		_, err := s.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "dry"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	var asked error
	hosts.Until(t, settled, "the webhook at "+address+" is known", func(ctx context.Context) error {
		if asked = create(ctx); asked == nil {
			return errors.New("it is not asked")
		}
		return nil
	})
	must(t, hooks.Delete(t.Context(), "at", metav1.DeleteOptions{}))
	hosts.Until(t, settled, "the webhook is gone", create)
	return asked
}

// TestWallW8AddressesOfOtherPartitions: pods, Services, nodes and servers of every
// partition are inside for the tenants of each, from the moment that it joins. What
// a tenant wrote before that is taken off.
func TestWallW8AddressesOfOtherPartitions(t *testing.T) {
	n := newNetwork(t)
	if n == nil {
		return
	}
	home := n.home(t)
	a := newSide(t, home, "main", "t1", "10.42.0.5", "10.43.0.1", "203.0.113.1")
	const outside = "198.51.100.7"
	theirs := []string{"10.142.0.5", "10.44.0.1", "203.0.113.2", "10.99.0.2"}
	hosts.Until(t, settled, "the server knows the pod of t1", func(ctx context.Context) error {
		_, err := a.client.DiscoveryV1().EndpointSlices("default").Create(ctx,
			slice("early", append(theirs, outside, a.pod)...), metav1.CreateOptions{})
		return err
	})
	tp2 := n.begin(t, home, "tp2", 0, "--tenant-partition", "tp2", "--resource-partition", "tp2")
	b := newSide(t, tp2, "tp2", "t4", "10.142.0.5", "10.44.0.1", "203.0.113.2")
	for _, node := range []string{"node-of-main", "node-of-tp2"} {
		for _, s := range []*side{a, b} {
			hosts.Until(t, settled, s.name+" knows "+node, func(ctx context.Context) error {
				_, err := s.server.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
				return err
			})
		}
	}
	hosts.Until(t, settled, "what came inside is taken off", func(ctx context.Context) error {
		s, err := a.client.DiscoveryV1().EndpointSlices("default").Get(ctx, "early", metav1.GetOptions{})
		if err != nil {
			return err
		}
		var left []string
		for _, e := range s.Endpoints {
			left = append(left, e.Addresses...)
		}
		if strings.Join(left, " ") != outside+" "+a.pod {
			return fmt.Errorf("there is %q", left)
		}
		return nil
	})
	for _, s := range []*side{a, b} {
		for _, of := range []*side{a, b} {
			for _, address := range of.inside {
				if s == of && address == s.pod {
					continue // the only one that is the tenant's
				}
				for _, form := range []string{address, six(address)} {
					err := errors.New("it is accepted")
					hosts.Until(t, settled, s.tenant+" does not lead to "+form, func(ctx context.Context) error {
						if again := s.writes(ctx, form); again != nil {
							err = again
							return nil
						}
						return err
					})
					if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "is inside the cluster") {
						t.Errorf("%s writes endpoints at %s of %s: %v", s.tenant, form, of.name, err)
					}
				}
				if err := s.asks(t, address); !strings.Contains(err.Error(), "hosts outside of the cluster only") {
					t.Errorf("%s has a webhook at %s of %s: %v", s.tenant, address, of.name, err)
				}
			}
		}
		for _, address := range []string{s.pod, outside} {
			hosts.Until(t, settled, s.tenant+" leads to "+address, func(ctx context.Context) error {
				return s.writes(ctx, address)
			})
			if err := s.asks(t, address); strings.Contains(err.Error(), "outside of the cluster only") {
				t.Errorf("%s has a webhook at %s: %v", s.tenant, address, err)
			}
		}
	}
}

// six is an IPv4 address as a network of IPv6 alone has it.
func six(address string) string {
	raw, v4 := netip.MustParseAddr("64:ff9b::").As16(), netip.MustParseAddr(address).As4()
	copy(raw[12:], v4[:])
	return netip.AddrFrom16(raw).String()
}
