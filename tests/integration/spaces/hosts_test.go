package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/rewrite"
)

// takerAddress is that of a node that takes requests.
const takerAddress = "192.0.2.80"

// taker is a node that takes requests for Ingresses.
func (p *plane) taker(t *testing.T) {
	t.Helper()
	if _, err := p.admin.CoreV1().Nodes().Create(t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "taker"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rewrite.Status(t.Context(), p.admin.CoreV1().Nodes(), "taker", func(node *corev1.Node) {
		node.Status = corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: takerAddress}},
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// ingressFor is an Ingress with a rule for each host.
func ingressFor(name string, hosts ...string) *networkingv1.Ingress {
	prefix := networkingv1.PathTypePrefix
	out := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, host := range hosts {
		out.Spec.Rules = append(out.Spec.Rules, networkingv1.IngressRule{Host: host,
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &prefix,
					Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web",
						Port: networkingv1.ServiceBackendPort{Number: 80}}}}}}}})
	}
	return out
}

func (s *space) exposes(t *testing.T, name string, hosts ...string) {
	t.Helper()
	_, err := s.client.NetworkingV1().Ingresses("default").Create(t.Context(), ingressFor(name, hosts...),
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// takes waits until an Ingress has the address of the node, or until it has none.
func (s *space) takes(t *testing.T, name string, want bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("Ingress %s to be served: %v", name, want), func(ctx context.Context) (bool, error) {
		got, err := s.client.NetworkingV1().Ingresses("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		at := got.Status.LoadBalancer.Ingress
		if !want {
			return len(at) == 0, nil
		}
		return len(at) == 1 && at[0].IP == takerAddress, nil
	})
}

// told waits for an Event about an Ingress.
func (s *space) told(t *testing.T, name, reason string) (message string) {
	t.Helper()
	eventually(t, reason+" of Ingress "+name, func(ctx context.Context) (bool, error) {
		events, err := s.client.CoreV1().Events("default").List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return false, err
		}
		for _, e := range events.Items {
			if e.Reason == reason {
				message = e.Message
			}
		}
		return message != "", nil
	})
	return message
}

// TestIngressHostsAreOfOneSpace: who asked first has a host, whatever is older, until they give it up or
// spec.hosts says otherwise.
func TestIngressHostsAreOfOneSpace(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	p.taker(t)
	one, two := p.bareTenant(t, "t1"), p.bareTenant(t, "t2")
	two.exposes(t, "old", "two.example.com")
	two.takes(t, "old", true)
	one.exposes(t, "shop", "shop.example.com")
	one.takes(t, "shop", true)

	// An Ingress that is older takes nothing.
	rename := []byte(`[{"op":"replace","path":"/spec/rules/0/host","value":"shop.example.com"}]`)
	if _, err := two.client.NetworkingV1().Ingresses("default").Patch(t.Context(), "old", types.JSONPatchType,
		rename, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if m := two.told(t, "old", "HostTaken"); strings.Contains(m, "t1") {
		t.Errorf("the Event says whose it is: %s", m)
	}
	two.takes(t, "old", false)
	one.takes(t, "shop", true)

	// Who has what is not for tenants.
	const written = "/api/v1/namespaces/kube-system/configmaps/ingress-hosts.t1"
	if code, answer := do(t, two.config, http.MethodGet, written, "", nil); code != http.StatusNotFound {
		t.Errorf("a tenant reads who has hosts: %d %.200s", code, answer)
	}

	two.exposes(t, "every", "", "*.example.com")
	if m := two.told(t, "every", "HostNotAllowed"); !strings.Contains(m, "spec.hosts") {
		t.Errorf("the Event does not say what to do: %s", m)
	}
	two.takes(t, "every", false)

	if err := one.client.NetworkingV1().Ingresses("default").Delete(t.Context(), "shop",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// It stays with them for a minute; an administrator does not have to wait.
	if err := p.admin.CoreV1().ConfigMaps("kube-system").Delete(t.Context(), "ingress-hosts.t1",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	two.takes(t, "old", true)

	// The system space keeps hosts for itself, though it uses none yet.
	if err := p.specify(t, "system", `{"hosts":["console.example.com"]}`); err != nil {
		t.Fatal(err)
	}
	two.exposes(t, "console", "console.example.com")
	two.told(t, "console", "HostNotAllowed")
	two.takes(t, "console", false)

	// An administrator decides otherwise, and it counts at once.
	one.exposes(t, "again", "shop.example.com")
	one.told(t, "again", "HostTaken")
	if err := p.specify(t, "t1", `{"hosts":["*.example.com"]}`); err != nil {
		t.Fatal(err)
	}
	one.takes(t, "again", true)
	two.takes(t, "old", false)
	if err := p.admin.CoreV1().Nodes().Delete(t.Context(), "taker", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	one.takes(t, "again", false)
	one.told(t, "again", "NoAddress")
}

// TestHostsOfATenant: with spec.hosts, Ingresses of a tenant have these hosts only, of whatever class, whoever
// writes them.
func TestHostsOfATenant(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	s := p.bareTenant(t, "t1")
	lists := func(list string) error { return p.specify(t, "t1", `{"hosts":`+list+`}`) }
	for _, wrong := range []string{`["Shop.example.com"]`, `["a.*.example.com"]`, `["*","a.example.com"]`, `["a b"]`,
		`["$(tenant.name).example.com"]`} {
		if err := lists(wrong); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.hosts[0]") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	if err := p.specify(t, "system", `{"hosts":["*"]}`); !apierrors.IsInvalid(err) {
		t.Errorf("every host for the system space: %v", err)
	}
	s.exposes(t, "early", "early.example.org")
	if err := lists(`["*.team.example.com","shop.example.com"]`); err != nil {
		t.Fatal(err)
	}
	const says = "Ingresses of this space have hosts of *.team.example.com, shop.example.com"
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	ingresses := s.client.NetworkingV1().Ingresses("default")
	eventually(t, "the list to hold", func(ctx context.Context) (bool, error) {
		_, err := ingresses.Create(ctx, ingressFor("x", "evil.example.org"), dryRun)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), says), nil
	})
	class := "nginx"
	ofAnother, ofNone := ingressFor("x", "evil.example.org"), ingressFor("x")
	byTLS := ingressFor("x", "shop.example.com")
	ofAnother.Spec.IngressClassName = &class
	ofNone.Spec.DefaultBackend = &ingressFor("x", "h").Spec.Rules[0].HTTP.Paths[0].Backend
	byTLS.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"evil.example.org"}}}
	for what, ingress := range map[string]*networkingv1.Ingress{"another class": ofAnother, "no rule": ofNone,
		"TLS": byTLS, "no host": ingressFor("x", ""), "a wildcard": ingressFor("x", "*.example.com"),
		"the second": ingressFor("x", "shop.example.com", "team.example.com")} {
		if _, err := ingresses.Create(t.Context(), ingress, dryRun); !apierrors.IsForbidden(err) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	allowed := ingressFor("x", "shop.example.com", "a.team.example.com", "a.b.team.example.com", "*.team.example.com")
	if _, err := ingresses.Create(t.Context(), allowed, dryRun); err != nil {
		t.Errorf("what the list has: %v", err)
	}
	// What was there stays, and can be changed otherwise.
	for body, ok := range map[string]bool{`{"metadata":{"labels":{"a":"b"}}}`: true,
		`{"spec":{"rules":[{"host":"late.example.org"}]}}`: false} {
		_, err := ingresses.Patch(t.Context(), "early", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		if (err == nil) != ok {
			t.Errorf("%s of one that was there: %v", body, err)
		}
	}
	s.mutates(t, "ingresses", "has(object.metadata.labels)",
		`[JSONPatch{op: 'replace', path: '/spec/rules/0/host', value: 'evil.example.org'}]`)
	marked := ingressFor("x", "shop.example.com")
	marked.Labels = map[string]string{"marked": ""}
	eventually(t, "what a policy makes of an Ingress to be judged", func(ctx context.Context) (bool, error) {
		made, err := ingresses.Create(ctx, marked, dryRun)
		if err == nil && made.Spec.Rules[0].Host == "evil.example.org" {
			t.Fatal("a policy has put the host in")
		}
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), says), nil
	})
}
