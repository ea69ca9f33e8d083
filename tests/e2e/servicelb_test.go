package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/rewrite"
)

// What a server carries, on two nodes, seen from a machine that is neither.
func TestVolumesAndLoadBalancersOfTwoNodesByNftables(t *testing.T) {
	testTwoNodes(t, "carry", "nftables")
}

func TestVolumesAndLoadBalancersOfTwoNodesByIptables(t *testing.T) {
	testTwoNodes(t, "carryip", "iptables")
}

func testTwoNodes(t *testing.T, name, mode string) {
	t.Parallel()
	c := ownCluster(t, name, "--proxy-mode", mode)
	c.waitOwnNode(t)
	worker := newAgent(t, name+"-worker", c, "--proxy-mode", mode)
	c.waitNodeReady(t, worker.host.Name, worker.started)
	t.Run("load balancers", func(t *testing.T) { testLoadBalancers(t, c, worker, newHost(t, name+"-client")) })
	t.Run("volumes", func(t *testing.T) { testVolumesOfTwoNodes(t, c, worker) })
	t.Run("no load balancers any more", func(t *testing.T) {
		c.proc.Kill()
		c.args = append(c.args, "--disable", "servicelb")
		c.restart(t)
		tenant := c.makeTenant(t, "balanced")
		tenant.waitIngress(t, "default", "mine")
		tenant.waitNoFinalizer(t, "default", "mine")
	})
}

func balanced(name, app string, port int32) *corev1.Service {
	s := service(name, app)
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.Ports[0].Port = port
	return s
}

// waitIngress waits until a Service has exactly these addresses.
func (c *cluster) waitIngress(t *testing.T, ns, name string, want ...string) {
	t.Helper()
	slices.Sort(want)
	hosts.Until(t, podTimeout, fmt.Sprintf("Service %s has the addresses %v", name, want),
		func(ctx context.Context) error {
			s, err := c.client.CoreV1().Services(ns).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			var got []string
			for _, i := range s.Status.LoadBalancer.Ingress {
				got = append(got, i.IP)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				return fmt.Errorf("it has %v", got)
			}
			return nil
		})
}

// waitNoFinalizer waits until nothing holds a Service back any more.
func (c *cluster) waitNoFinalizer(t *testing.T, ns, name string) {
	t.Helper()
	hosts.Until(t, soon, "Service "+name+" has no finalizer", func(ctx context.Context) error {
		s, err := c.client.CoreV1().Services(ns).Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(s.Finalizers) > 0 {
			err = fmt.Errorf("it has %v", s.Finalizers)
		}
		return err
	})
}

// waitRefusal waits for an event that says why a Service gets nothing.
func (c *cluster) waitRefusal(t *testing.T, ns, name, part string) string {
	t.Helper()
	var message string
	hosts.Until(t, podTimeout, "an event of Service "+name+" says "+part, func(ctx context.Context) error {
		events, err := c.client.CoreV1().Events(ns).List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return err
		}
		var all []string
		for _, e := range events.Items {
			if strings.Contains(e.Message, part) {
				message = e.Message
				return nil
			}
			all = append(all, e.Message)
		}
		return fmt.Errorf("the events are %q", all)
	})
	return message
}

// waitFrom waits until a machine outside gets an answer.
func waitFrom(t *testing.T, h *hosts.Host, ip string, port int, path, want string) {
	t.Helper()
	url := "http://" + net.JoinHostPort(ip, strconv.Itoa(port)) + path
	hosts.Until(t, soon, fmt.Sprintf("%s answers %q", url, want), func(ctx context.Context) error {
		r, err := h.Run(ctx, env.testbox, "get", url)
		if err == nil && strings.TrimSpace(r.Stdout) != want {
			err = fmt.Errorf("it answers %q %s", r.Stdout, r.Stderr)
		}
		return err
	})
}

func testLoadBalancers(t *testing.T, c *cluster, worker *node, outside *hosts.Host) {
	near, far := c.host.IP.String(), worker.host.IP.String()
	ns := c.namespace(t)
	c.runPod(t, ns, on(worker.host.Name, testboxPod("web")))
	c.createService(t, ns, balanced("web", "web", 83))
	c.waitIngress(t, ns, "web", near, far)
	for _, ip := range []string{near, far} {
		waitFrom(t, outside, ip, 83, "/hostname", "web")
	}

	tenant := c.makeTenant(t, "balanced")
	tenant.runPod(t, "default", on(c.host.Name, testboxPod("mine")))
	t.Run("a port that is taken", func(t *testing.T) {
		c.createService(t, ns, balanced("late", "web", 83))
		if m := c.waitRefusal(t, ns, "late", "83/TCP"); !strings.Contains(m, ns+"/web") {
			t.Errorf("the event does not say by whom: %s", m)
		}
		c.waitIngress(t, ns, "late")
		if err := c.client.CoreV1().Services(ns).Delete(t.Context(), "late", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		tenant.createService(t, "default", balanced("mine", "mine", 83))
		if m := tenant.waitRefusal(t, "default", "mine", "83/TCP"); strings.Contains(m, ns) ||
			strings.Contains(m, "web") {
			t.Errorf("the tenant learns of a Service of somebody else: %s", m)
		}
		tenant.waitIngress(t, "default", "mine")
	})
	t.Run("ports of the node", func(t *testing.T) {
		for _, port := range []int32{22, 6443, 10250, 30080} {
			name := fmt.Sprintf("port-%d", port)
			tenant.createService(t, "default", balanced(name, "mine", port))
			tenant.waitRefusal(t, "default", name, fmt.Sprintf("port %d is", port))
			tenant.waitIngress(t, "default", name)
		}
		// The API is still there, for those outside, too.
		r, err := outside.Run(t.Context(), env.testbox, "get", "https://"+net.JoinHostPort(near, "6443")+"/")
		if err != nil || !strings.Contains(r.Stderr, "x509") && !strings.Contains(r.Stderr, "certificate") {
			t.Errorf("port 6443 of the node: %+v, %v", r, err)
		}
	})
	t.Run("a port that is free again", func(t *testing.T) {
		if err := c.client.CoreV1().Services(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		hosts.Until(t, soon, "the deleted Service is gone", func(ctx context.Context) error {
			_, err := c.client.CoreV1().Services(ns).Get(ctx, "web", metav1.GetOptions{})
			return wantNotFound(err)
		})
		tenant.waitIngress(t, "default", "mine", near, far)
		waitFrom(t, outside, far, 83, "/hostname", "mine")
	})
	t.Run("a port of the node by a change", func(t *testing.T) {
		if _, err := rewrite.Object(t.Context(), tenant.client.CoreV1().Services("default"), "mine",
			func(mine *corev1.Service) { mine.Spec.Ports[0].Port = 22 }); !apierrors.IsForbidden(err) {
			t.Errorf("a Service with addresses gets port 22: %v", err)
		}
	})
	t.Run("only where the pods are", func(t *testing.T) {
		s := balanced("local", "web", 81)
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		c.createService(t, ns, s)
		c.waitIngress(t, ns, "local", far)
		// The pod sees who asks.
		waitFrom(t, outside, far, 81, "/client", outside.IP.String())
	})
	t.Run("another type", func(t *testing.T) {
		if _, err := rewrite.Object(t.Context(), c.client.CoreV1().Services(ns), "local", func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeClusterIP, ""
		}); err != nil {
			t.Fatal(err)
		}
		c.waitIngress(t, ns, "local")
		c.waitNoFinalizer(t, ns, "local")
	})
	t.Run("one node is taken out", func(t *testing.T) {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, corev1.LabelNodeExcludeBalancers)
		if _, err := c.client.CoreV1().Nodes().Patch(t.Context(), worker.host.Name, "application/merge-patch+json",
			patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		tenant.waitIngress(t, "default", "mine", near)
	})
}
