package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/rewrite"
)

// Two tenants. No host and no certificate of a test has the name of one in it.
const ingressRed, ingressBlue = "ing-red", "ing-blue"

func (i *ingressTest) testTenants(t *testing.T) {
	red, blue := i.c.makeTenant(t, ingressRed), i.c.makeTenant(t, ingressBlue)
	older := blue.createIngress(t, "default", ingressRule("older", "older.example.com", "web"))
	red.runWeb(t, "red")
	blue.runWeb(t, "blue")
	i.waitPodOf(t, i.near, "older.example.com", "blue")
	i.waitPodOf(t, i.far, "older.example.com", "blue")
	blue.waitIngressAddresses(t, "default", "older", i.near, i.far)

	t.Run("who asks", func(t *testing.T) { i.testForwardedFor(t, "older.example.com") })
	t.Run("a host that is taken", func(t *testing.T) { i.testTakenHost(t, red, blue, older.CreationTimestamp) })
	t.Run("no host", func(t *testing.T) {
		red.createIngress(t, "default", ingressRule("any", "", "web"))
		red.createIngress(t, "default", ingressRule("wild", "*.wild.example.com", "web"))
		red.waitIngressEvent(t, "default", "any", "HostNotAllowed", "names its host")
		red.waitIngressEvent(t, "default", "wild", "HostNotAllowed", "spec.hosts")
		for _, host := range []string{"", "nobody.example.com", "a.wild.example.com"} {
			i.always(t, host, "404", ofStatus(http.StatusNotFound))
		}
		red.waitIngressAddresses(t, "default", "any")
		red.waitIngressAddresses(t, "default", "wild")
	})
	t.Run("spec.hosts", func(t *testing.T) { i.testAllowedHosts(t, red, blue) })
	t.Run("certificates", func(t *testing.T) { i.testCertificatesOfTenants(t, red, blue) })
	t.Run("endpoints", func(t *testing.T) { i.testForeignEndpoints(t, red, blue) })
	t.Run("a tenant goes", func(t *testing.T) {
		const host = "left.example.com"
		gone := i.c.makeTenant(t, "ing-gone")
		i.c.patchTenant(t, "ing-gone", `{"hosts":["left.example.com"]}`)
		gone.createIngress(t, "default", ingressRule("left", host, "nothing"))
		i.waitStatus(t, i.near, host, "/", http.StatusServiceUnavailable)
		blue.createIngress(t, "default", ingressRule("left", host, "web"))
		blue.waitIngressEvent(t, "default", "left", "HostNotAllowed", host)
		i.c.must(t, "tenant", "delete", "ing-gone")
		i.waitPodOf(t, i.near, host, "blue")
		i.waitPodOf(t, i.far, host, "blue")
	})
}

// runWeb starts a pod in namespace default, with the Service web.
func (c *cluster) runWeb(t *testing.T, pod string) {
	t.Helper()
	box := testboxPod(pod)
	box.Labels["app"] = "web"
	c.createService(t, "default", service("web", "web"))
	c.runPod(t, "default", box)
}

// testForwardedFor: what pods are told of the client is the truth.
func (i *ingressTest) testForwardedFor(t *testing.T, host string) {
	const lie = "203.0.113.9"
	for _, ip := range []string{i.near, i.far} {
		a, err := i.get(t.Context(), ip, host, "/request/", "X-Forwarded-For", lie, "X-Forwarded-For", "a, "+lie,
			"X-Real-Ip", lie, "Forwarded", "for="+lie, "X-Forwarded-Host", lie, "X_Forwarded_For", lie,
			"Connection", "X-Forwarded-For", "X-Mine", "kept")
		if err != nil || a.Pod != "blue" {
			t.Fatalf("%v, %v", a, err)
		}
		for name, want := range map[string]string{"X-Forwarded-For": i.outside.IP.String(),
			"X-Real-Ip": i.outside.IP.String(), "X-Forwarded-Host": host, "X-Forwarded-Proto": "http",
			"X-Mine": "kept"} {
			if got := a.Header[name]; !slices.Equal(got, []string{want}) {
				t.Errorf("the pod gets %s %q, want %s", name, got, want)
			}
		}
		if strings.Contains(a.text, lie) {
			t.Errorf("the pod gets what the client says of itself: %s", a.text)
		}
	}
}

// testTakenHost: whoever asked first has a host, and keeps it.
func (i *ingressTest) testTakenHost(t *testing.T, red, blue *cluster, older metav1.Time) {
	const host = "shop.example.com"
	shop := red.createIngress(t, "default", ingressRule("shop", host, "web"))
	if !older.Before(&shop.CreationTimestamp) {
		t.Fatalf("the Ingress of %s is not older than that of %s", older, shop.CreationTimestamp)
	}
	red.waitIngressAddresses(t, "default", "shop", i.near, i.far)
	i.waitPodOf(t, i.near, host, "red")
	i.waitPodOf(t, i.far, host, "red")
	taken := func(c *cluster, ns, name, host string) {
		t.Helper()
		message := c.waitIngressEvent(t, ns, name, "HostTaken", host)
		for _, secret := range []string{ingressRed, ingressBlue, i.ns, "system"} {
			if strings.Contains(message, secret) {
				t.Errorf("the Event says who has the host: %s", message)
			}
		}
		c.waitIngressAddresses(t, ns, name)
	}
	blue.createIngress(t, "default", ingressRule("take", host, "web"))
	taken(blue, "default", "take", host)
	blue.setHost(t, "default", "older", host)
	taken(blue, "default", "older", host)
	i.waitStatus(t, i.near, "older.example.com", "/", http.StatusNotFound)
	i.always(t, host, "pod red", ofPod("red"))

	// The system's are nobody else's, and the other way round.
	red.createIngress(t, "default", ingressRule("www", "www.example.com", "web"))
	taken(red, "default", "www", "www.example.com")
	i.c.createIngress(t, i.ns, ingressRule("shop", host, "near"))
	i.c.waitIngressEvent(t, i.ns, "shop", "HostTaken", "tenant "+ingressRed)
	i.always(t, host, "pod red", ofPod("red"))
	i.c.deleteIngress(t, i.ns, "shop")

	red.deleteIngress(t, "default", "shop")
	i.waitPodOf(t, i.near, host, "blue")
	i.waitPodOf(t, i.far, host, "blue")
	blue.waitIngressAddresses(t, "default", "older", i.near, i.far) // it has the path, not the one that is younger
	i.always(t, host, "pod blue", ofPod("blue"))
}

// testAllowedHosts: an administrator says who may have which hosts, and changes that.
func (i *ingressTest) testAllowedHosts(t *testing.T, red, blue *cluster) {
	const kept, below, outsideOf = "a.kept.example.com", "b.c.kept.example.com", "elsewhere.example.com"
	blue.createIngress(t, "default", ingressRule("kept", kept, "web"))
	i.waitPodOf(t, i.near, kept, "blue")
	i.c.patchTenant(t, ingressRed, `{"hosts":["*.kept.example.com","one.example.com"]}`)
	if message := blue.waitIngressEvent(t, "default", "kept", "HostNotAllowed", kept); strings.Contains(message,
		ingressRed) {
		t.Errorf("the Event says whose the host is: %s", message)
	}
	i.waitStatus(t, i.near, kept, "/", http.StatusNotFound)
	i.waitStatus(t, i.far, kept, "/", http.StatusNotFound)
	blue.waitIngressAddresses(t, "default", "kept")
	blue.createIngress(t, "default", ingressRule("one", "one.example.com", "web"))
	blue.waitIngressEvent(t, "default", "one", "HostNotAllowed", "one.example.com")

	for _, host := range []string{outsideOf, "", "kept.example.com", "*.example.com"} {
		red.waitRefusedHost(t, host, "*.kept.example.com", "one.example.com")
	}
	red.createIngress(t, "default", ingressRule("below", below, "web"))
	red.createIngress(t, "default", ingressRule("one", "one.example.com", "web"))
	red.createIngress(t, "default", ingressRule("all", "*.kept.example.com", "web"))
	for _, host := range []string{below, "one.example.com", kept, "any.kept.example.com"} {
		i.waitPodOf(t, i.near, host, "red")
		i.waitPodOf(t, i.far, host, "red")
		i.always(t, host, "pod red", ofPod("red"))
	}

	// What is allowed to all again is whoever's has it.
	i.c.patchTenant(t, ingressRed, `{"hosts":null}`)
	red.waitIngressEvent(t, "default", "all", "HostNotAllowed", "wildcard")
	i.waitPodOf(t, i.near, kept, "blue")
	i.waitPodOf(t, i.far, kept, "blue")
	i.always(t, "one.example.com", "pod red", ofPod("red"))
	i.waitStatus(t, i.far, "any.kept.example.com", "/", http.StatusNotFound)
	red.createIngress(t, "default", ingressRule("elsewhere", outsideOf, "web"))
	i.waitPodOf(t, i.far, outsideOf, "red")
}

// waitRefusedHost waits until no Ingress can be made with a host, for a reason with these parts.
func (c *cluster) waitRefusedHost(t *testing.T, host string, parts ...string) {
	t.Helper()
	hosts.Until(t, soon, fmt.Sprintf("no Ingress can have host %q", host), func(ctx context.Context) error {
		_, err := c.client.NetworkingV1().Ingresses("default").Create(ctx, ingressRule("refused", host, "web"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return fmt.Errorf("one can")
		}
		for _, part := range parts {
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), part) {
				t.Fatalf("host %q is refused with %v, want %q in it", host, err, part)
			}
		}
		return nil
	})
}

// testCertificatesOfTenants: a Secret is one of the space of the Ingress.
func (i *ingressTest) testCertificatesOfTenants(t *testing.T, red, blue *cluster) {
	const host, other = "cert.example.com", "other.example.com"
	if _, err := red.client.CoreV1().Secrets("default").Create(t.Context(),
		certificateSecret(t, "cert", host, "of one"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	red.createIngress(t, "default", withTLS(ingressRule("cert", host, "web"), "cert"))
	for _, ip := range []string{i.near, i.far} {
		i.waitCertificate(t, ip, host, "of one")
	}
	take := withTLS(ingressRule("cert", other, "web"), "cert")
	take.Spec.TLS[0].Hosts = append(take.Spec.TLS[0].Hosts, host)
	blue.createIngress(t, "default", take)
	blue.waitIngressEvent(t, "default", "cert", "CertificateNotFound", "Secret cert")
	for _, ip := range []string{i.near, i.far} {
		i.waitPodOf(t, ip, other, "blue")
		i.waitCertificate(t, ip, other, nobodysCertificate)
	}
	// Nor does it become that of a host of somebody else.
	if _, err := blue.client.CoreV1().Secrets("default").Create(t.Context(),
		certificateSecret(t, "cert", other, "of two"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, ip := range []string{i.near, i.far} {
		i.waitCertificate(t, ip, other, "of two")
		i.waitCertificate(t, ip, host, "of one")
	}
}

// endpointOf is an EndpointSlice for the port http of a Service.
func endpointOf(service, name, address string, port int32) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: &port}},
	}
}

// testForeignEndpoints: requests for a tenant go to its own pods only, whatever its endpoints are.
func (i *ingressTest) testForeignEndpoints(t *testing.T, red, blue *cluster) {
	const host = "forged.example.com"
	address := func(c *cluster, ns, pod string) string {
		p, err := c.client.CoreV1().Pods(ns).Get(t.Context(), pod, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Status.PodIP
	}
	foreign := map[string]*discoveryv1.EndpointSlice{
		"a pod of another tenant": endpointOf("forged", "pod", address(red, "default", "red"), 8080),
		"a pod of the system":     endpointOf("forged", "system", address(i.c, i.ns, "near"), 8080),
		"a node":                  endpointOf("forged", "node", i.near, 6443),
		"the node itself":         endpointOf("forged", "self", "127.0.0.1", 10248),
	}
	svc := service("forged", "")
	svc.Spec.Selector = nil
	blue.createService(t, "default", svc)
	blue.createIngress(t, "default", ingressRule("forged", host, "forged"))
	i.waitStatus(t, i.near, host, "/", http.StatusServiceUnavailable)
	for what, slice := range foreign {
		if _, err := blue.client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), slice,
			metav1.CreateOptions{}); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("a tenant writes the address of %s: %v", what, err)
		}
		// Nor would it count.
		if _, err := i.c.client.DiscoveryV1().EndpointSlices("default."+ingressBlue).Create(t.Context(), slice,
			metav1.CreateOptions{}); err != nil && !apierrors.IsInvalid(err) {
			t.Fatal(err)
		}
	}
	own := endpointOf("forged", "own", address(blue, "default", "blue"), 8080)
	if _, err := blue.client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), own,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	i.waitPodOf(t, i.near, host, "blue")
	i.waitPodOf(t, i.far, host, "blue")
	i.always(t, host, "pod blue", ofPod("blue"))
	if err := blue.client.CoreV1().Pods("default").Delete(t.Context(), "blue",
		metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	// The address of a pod that is gone is nobody's.
	i.waitStatus(t, i.near, host, "/", http.StatusServiceUnavailable)
	i.waitStatus(t, i.far, host, "/", http.StatusServiceUnavailable)
	again := testboxPod("blue")
	again.Labels["app"] = "web"
	blue.runPod(t, "default", again)
}

// testBalancers: Services with the ports of Ingresses.
func (i *ingressTest) testBalancers(t *testing.T) {
	const host = "lb.example.com"
	c := i.c
	c.createIngress(t, i.ns, ingressRule("beside", host, "near"))
	c.waitIngressAddresses(t, i.ns, "beside", i.near, i.far)
	i.waitPodOf(t, i.near, host, "near")
	i.waitPodOf(t, i.far, host, "near")
	t.Run("of the system", func(t *testing.T) {
		s := balanced("balancer", "", 80)
		s.Spec.Selector = map[string]string{"at": "far"}
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		s = c.createService(t, i.ns, s)
		c.waitIngress(t, i.ns, "balancer", i.far)
		c.waitIngressAddresses(t, i.ns, "beside", i.near)
		i.waitPodOf(t, i.far, host, "far")
		i.waitPodOf(t, i.near, host, "near")

		if _, err := rewrite.Object(t.Context(), c.client.CoreV1().Services(i.ns), s.Name,
			func(s *corev1.Service) {
				s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
				s.Spec.HealthCheckNodePort = 0
			}); err != nil {
			t.Fatal(err)
		}
		c.waitIngress(t, i.ns, "balancer", i.near, i.far)
		c.waitIngressAddresses(t, i.ns, "beside")
		c.waitIngressEvent(t, i.ns, "beside", "NoAddress", "port 80 or 443")
		i.waitPodOf(t, i.near, host, "far")

		if err := c.client.CoreV1().Services(i.ns).Delete(t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.waitIngressAddresses(t, i.ns, "beside", i.near, i.far)
		i.waitPodOf(t, i.near, host, "near")
		i.waitPodOf(t, i.far, host, "near")
	})
	t.Run("of a tenant", func(t *testing.T) {
		red := c.makeTenant(t, ingressRed)
		try := func(port int32, how metav1.CreateOptions) error {
			_, err := red.client.CoreV1().Services("default").
				Create(t.Context(), balanced("balancer", "web", port), how)
			return err
		}
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		for _, port := range []int32{80, 443} {
			if err := try(port, metav1.CreateOptions{}); !apierrors.IsForbidden(err) ||
				!strings.Contains(err.Error(), "use an Ingress") {
				t.Errorf("a tenant makes a Service with port %d: %v", port, err)
			}
		}
		if err := try(81, dry); err != nil {
			t.Errorf("another port: %v", err)
		}
		c.patchTenant(t, ingressRed, `{"allow":{"loadBalancerPorts":["80"]}}`)
		hosts.Until(t, soon, "a tenant may have port 80", func(context.Context) error { return try(80, dry) })
		if err := try(443, dry); !apierrors.IsForbidden(err) {
			t.Errorf("with port 80 a tenant gets 443: %v", err)
		}
		if err := try(80, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		red.waitIngress(t, "default", "balancer", i.near, i.far)
		i.waitPodOf(t, i.far, host, "red")
		c.waitIngressAddresses(t, i.ns, "beside")
		if err := red.client.CoreV1().Services("default").Delete(t.Context(), "balancer",
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.waitIngressAddresses(t, i.ns, "beside", i.near, i.far)
		i.waitPodOf(t, i.far, host, "near")
	})
}
