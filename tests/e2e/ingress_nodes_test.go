package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/tests/hosts"
)

// testKilledChild: another process takes requests, and clients that come meanwhile wait for it.
func (i *ingressTest) testKilledChild(t *testing.T) {
	for _, n := range []*node{&i.c.node, i.worker} {
		child := childNamed(t, n.proc.PID(), ingressChild)
		if err := unix.Kill(child, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		hosts.Until(t, soon, "the killed process is gone", func(context.Context) error {
			if n.takesIngress(t) == child {
				return fmt.Errorf("process %d is there", child)
			}
			return nil
		})
		started := time.Now()
		a, err := i.get(t.Context(), n.host.IP.String(), "www.example.com", "/request/")
		if err != nil || a.Pod == "" {
			t.Errorf("a request at %s after the end of the process: %v, %v", n.host.Name, a, err)
		}
		t.Logf("a request waited for %s", time.Since(started).Round(time.Millisecond))
		if now := n.takesIngress(t); now == 0 || now == child {
			t.Errorf("requests at %s are taken by process %d, before by %d", n.host.Name, now, child)
		}
	}
	i.waitBoth(t, "www.example.com")
}

// testRestart: a node that is down takes no requests.
func (i *ingressTest) testRestart(t *testing.T) {
	child := childNamed(t, i.worker.proc.PID(), ingressChild)
	if err := i.worker.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	i.waitNoIngress(t, i.worker)
	i.waitPodOf(t, i.near, "www.example.com", "near")
	if err := i.worker.start(); err != nil {
		t.Fatal(err)
	}
	i.waitPodOf(t, i.far, "www.example.com", "near")
	i.waitPodOf(t, i.far, "www.example.com", "far")
	if now := i.worker.takesIngress(t); now == 0 || now == child {
		t.Errorf("requests are taken by process %d, before by %d", now, child)
	}
	i.c.waitNodeReady(t, i.worker.host.Name, i.worker.started)
	i.c.waitIngressAddresses(t, i.ns, "named", i.near, i.far)
}

// testExcluded: a label takes a node out, and lets it in again.
func (i *ingressTest) testExcluded(t *testing.T) {
	t.Parallel()
	label := func(value string) {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, corev1.LabelNodeExcludeBalancers, value)
		if _, err := i.c.client.CoreV1().Nodes().Patch(t.Context(), i.worker.host.Name, types.MergePatchType, patch,
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	label(`"true"`)
	i.c.waitIngressAddresses(t, i.ns, "named", i.near)
	i.waitNoIngress(t, i.worker)
	i.waitPodOf(t, i.near, "www.example.com", "near")
	i.waitPodOf(t, i.near, "www.example.com", "far") // its pods are in
	label("null")
	i.c.waitIngressAddresses(t, i.ns, "named", i.near, i.far)
	i.waitPodOf(t, i.far, "www.example.com", "near")
}

// testDisabled: nothing is left of Ingresses where they are left to others.
func (i *ingressTest) testDisabled(t *testing.T) {
	c := i.c
	c.proc.Kill()
	i.waitNoIngress(t, &c.node)
	i.waitPodOf(t, i.far, "www.example.com", "far") // without a server what was said last counts
	c.args = append(c.args, "--disable", "ingress")
	c.restart(t)
	c.waitIngressAddresses(t, i.ns, "named")
	hosts.Until(t, soon, "the class is gone", func(ctx context.Context) error {
		_, err := c.client.NetworkingV1().IngressClasses().Get(ctx, "a4s", metav1.GetOptions{})
		return wantNotFound(err)
	})
	blue := c.makeTenant(t, ingressBlue)
	blue.waitIngressAddresses(t, "default", "older")
	if _, err := blue.client.CoreV1().Services("default").Create(t.Context(), balanced("balancer", "web", 80),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("a tenant does not get a port that takes no requests for Ingresses: %v", err)
	}
	i.waitNoIngress(t, i.worker)
	i.waitNoIngress(t, &c.node)
	hosts.Until(t, soon, "nothing says who had which host", func(ctx context.Context) error {
		all, err := c.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).List(ctx,
			metav1.ListOptions{LabelSelector: "a4s.io/ingress-hosts"})
		if err == nil && len(all.Items) > 0 {
			err = fmt.Errorf("there are %d ConfigMaps", len(all.Items))
		}
		return err
	})
}
