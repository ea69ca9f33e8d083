package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/a4s-io/a4s/tests/hosts"
)

func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "policy-server")
	c.waitOwnNode(t)
	const worker = "policy-worker"
	agent := newAgent(t, worker, c)
	c.waitNodeReady(t, worker, agent.started)
	other := c.makeTenant(t, "policy-other")
	foreign := client{other, "default", other.runPod(t, "default", on(worker, testboxPod("foreign")))}
	t.Run("system", func(t *testing.T) {
		t.Parallel()
		testNetworkPolicy(t, c, worker, nil)
	})
	t.Run("tenant", func(t *testing.T) {
		t.Parallel()
		testNetworkPolicy(t, c.makeTenant(t, "policy-own"), worker, &foreign)
	})
	t.Cleanup(func() {
		if t.Failed() {
			for _, n := range []*node{&c.node, agent} {
				t.Logf("the rules of %s:\n%s", n.host.Name,
					run(t, n.host, "nft", "list", "table", "inet", "a4s_filter"))
			}
		}
	})
}

// TestNetworkPolicyDisabled makes sure that it is the policies that refuse.
func TestNetworkPolicyDisabled(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "policy-off", "--disable-network-policy")
	c.waitOwnNode(t)
	ns := c.namespace(t)
	c.createPolicy(t, ns, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "deny"}})
	web := c.runPod(t, ns, testboxPod("web"))
	asking := client{c, ns, c.runPod(t, ns, testboxPod("client"))}
	expect(t, true, []string{web.Status.PodIP + ":8080"}, asking)
	if rules := run(t, c.host, "nft", "list", "table", "inet", "a4s_filter"); strings.Contains(rules,
		"chain ingress {") || !strings.Contains(rules, "chain tenants-forward {") {
		t.Errorf("there are rules of policies, or none that keep tenants apart:\n%s", rules)
	}
}

// client is a pod that asks. It is run by its kubelet, so that it need not be
// reached itself.
type client struct {
	c   *cluster
	ns  string
	pod *corev1.Pod
}

// expect waits until all of the clients reach all of the addresses, or none of
// them any.
func expect(t *testing.T, want bool, addresses []string, clients ...client) {
	t.Helper()
	type pair struct {
		from    client
		address string
	}
	var mu sync.Mutex
	wrong := map[pair]error{}
	for _, from := range clients {
		for _, address := range addresses {
			wrong[pair{from, address}] = nil
		}
	}
	hosts.Until(t, soon, fmt.Sprintf("%d clients reach %v: %v", len(clients), addresses, want),
		func(ctx context.Context) error {
			var wg sync.WaitGroup
			for p := range maps.Clone(wrong) {
				wg.Go(func() {
					out, err := p.from.c.exec(ctx, p.from.ns, p.from.pod.Name, "", "/testbox", "get",
						"http://"+p.address+"/hostname")
					dropped := err != nil &&
						(strings.Contains(err.Error(), "deadline exceeded") ||
							strings.Contains(err.Error(), "timeout"))
					mu.Lock()
					defer mu.Unlock()
					if want && err == nil || !want && dropped {
						delete(wrong, p)
						return
					}
					wrong[p] = fmt.Errorf("%s/%s gets %q from %s: %v", p.from.ns, p.from.pod.Name, out, p.address, err)
				})
			}
			wg.Wait()
			return errors.Join(slices.Collect(maps.Values(wrong))...)
		})
}

// createPolicy creates a policy and returns what deletes it.
func (c *cluster) createPolicy(t *testing.T, ns string, np *networkingv1.NetworkPolicy) (remove func()) {
	t.Helper()
	if _, err := c.client.NetworkingV1().NetworkPolicies(ns).
		Create(t.Context(), np, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := c.client.NetworkingV1().NetworkPolicies(ns).
			Delete(t.Context(), np.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func selects(pairs ...string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		s.MatchLabels[pairs[i]] = pairs[i+1]
	}
	return s
}

// allowFrom is a policy that lets peers in to every pod, at ports.
func allowFrom(
	name string, peer networkingv1.NetworkPolicyPeer, ports ...intstr.IntOrString,
) *networkingv1.NetworkPolicy {
	rule := networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{peer}}
	for _, p := range ports {
		rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{Port: &p})
	}
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{rule}}}
}

func testNetworkPolicy(t *testing.T, c *cluster, worker string, foreign *client) {
	server := c.host.Name
	ns, blueNS := c.namespace(t), c.namespace(t)
	if _, err := c.client.CoreV1().Namespaces().Patch(t.Context(), blueNS, "application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"team":"blue"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	web := func(name string) *corev1.Pod {
		p := testboxPod(name)
		p.Labels["app"] = "web"
		return p
	}
	odd := web("odd")
	odd.Spec.Containers[0].Args = []string{"serve", ":9090"}
	odd.Spec.Containers[0].Ports[0].ContainerPort = 9090
	odd.Spec.Containers[0].ReadinessProbe.HTTPGet.Port = intstr.FromInt32(9090)
	near := c.runPod(t, ns, on(server, testboxPod("near"))).Status.PodIP + ":8080"
	far := c.runPod(t, ns, on(worker, web("far"))).Status.PodIP + ":8080"
	oddIP := c.runPod(t, ns, on(worker, odd)).Status.PodIP + ":9090"
	service := c.createService(t, ns, service("web", "near")).Spec.ClusterIP
	friend := client{c, ns, c.runPod(t, ns, on(server, testboxPod("friend")))}
	stranger := client{c, ns, c.runPod(t, ns, on(worker, testboxPod("stranger")))}
	blue := client{c, blueNS, c.runPod(t, blueNS, on(server, testboxPod("blue")))}
	all := []string{near, far, oddIP}
	expect(t, true, append(all, service), friend, stranger, blue)

	deny := c.createPolicy(t, ns, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "deny"}})
	expect(t, false, append(all, service), friend, stranger, blue)

	byPod := c.createPolicy(t, ns, allowFrom("by-pod",
		networkingv1.NetworkPolicyPeer{PodSelector: selects("app", "friend")}, intstr.FromString("http")))
	expect(t, true, append(all, service), friend)
	expect(t, false, []string{near, far}, stranger, blue)
	expect(t, false, []string{service}, stranger)

	byNamespace := c.createPolicy(t, ns, allowFrom("by-namespace",
		networkingv1.NetworkPolicyPeer{NamespaceSelector: selects("team", "blue")}, intstr.FromInt32(8080)))
	expect(t, true, []string{near, far}, blue, friend)
	expect(t, false, []string{oddIP}, blue, stranger)
	byPod()
	expect(t, false, []string{near, oddIP}, friend)
	byNamespace()
	expect(t, false, []string{far}, blue)

	byBlock := c.createPolicy(t, ns, allowFrom("by-block", networkingv1.NetworkPolicyPeer{
		IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{stranger.pod.Status.PodIP + "/32"}},
	}))
	expect(t, true, all, friend, blue)
	expect(t, false, all, stranger)
	if foreign != nil { // what a policy allows does not join tenants
		expect(t, false, all, *foreign)
	}
	// The node's probes have passed all the time.
	for _, name := range []string{"near", "far", "odd"} {
		c.waitPodReady(t, ns, name)
	}
	byBlock()
	deny()
	expect(t, true, all, friend, stranger, blue)

	out := c.createPolicy(t, ns,
		&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "out"}, Spec: networkingv1.NetworkPolicySpec{
			PodSelector: *selects("app", "friend"),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Egress: []networkingv1.NetworkPolicyEgressRule{{
				To:    []networkingv1.NetworkPolicyPeer{{PodSelector: selects("app", "web")}},
				Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromString("http"))}},
			}},
		}})
	expect(t, false, []string{stranger.pod.Status.PodIP + ":8080"}, friend)
	expect(t, false, []string{service}, friend) // whose pod is no peer
	expect(t, true, []string{far, oddIP}, friend)
	expect(t, true, []string{near, service}, stranger)
	c.waitAnswer(t, ns, "friend", hosts.UpstreamAddress, "/resolve", "name", hosts.UpstreamName) // the node's own DNS
	out()
	expect(t, true, []string{near, service}, friend)

	// A pod that is under a policy from its beginning is never reached.
	c.createPolicy(t, ns, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "late"},
		Spec: networkingv1.NetworkPolicySpec{PodSelector: *selects("app", "late")}})
	late := c.createPod(t, ns, on(worker, testboxPod("late")))
	hosts.Until(t, soon, "the new pod is ready and was not reached", func(ctx context.Context) error {
		p, err := c.client.CoreV1().Pods(ns).Get(ctx, late.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.Status.PodIP != "" {
			if out, err := c.exec(ctx, ns, "stranger", "", "/testbox", "get",
				"http://"+p.Status.PodIP+":8080/hostname"); err == nil {
				t.Fatalf("the new pod answers %q", out)
			}
		}
		if !podIsReady(p) {
			return errors.New("it is not ready")
		}
		return nil
	})
}
