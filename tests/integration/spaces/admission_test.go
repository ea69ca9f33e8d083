package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/tests/nstest"
)

// TestAdmission: webhooks and policies of tenants see their objects natively
// and nobody else's; those of the system see all under composite names.
func TestAdmission(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	h := newHooks(t)
	if n := p.plainMetric(t, "a4s_admission_tenants"); n != "0" {
		t.Errorf("without configurations the plugins of %s tenants are running", n)
	}
	t.Run("mutating webhooks", func(t *testing.T) { testMutatingWebhooks(t, p, h, a, b) })
	t.Run("validating webhooks", func(t *testing.T) { testValidatingWebhooks(t, p, h, a, b) })
	t.Run("another round", func(t *testing.T) { testReinvocation(t, h, a) })
	t.Run("unreachable webhooks", func(t *testing.T) { testFailurePolicy(t, a) })
	t.Run("webhooks of the system", func(t *testing.T) { testSystemWebhooks(t, p, h, a, b) })
	t.Run("plugins without configurations are stopped", func(t *testing.T) {
		eventually(t, "the plugins of tenants to stop", func(context.Context) (bool, error) {
			return p.plainMetric(t, "a4s_admission_tenants") == "0", nil
		})
	})
	t.Run("validating policies", func(t *testing.T) { testValidatingPolicies(t, p, a, b) })
	t.Run("mutating policies", func(t *testing.T) { testMutatingPolicies(t, p, a, b) })
	t.Run("policies of the system", func(t *testing.T) { testSystemPolicies(t, p, a, b) })
}

// plainMetric is the value of one without labels.
func (p *plane) plainMetric(t *testing.T, name string) string {
	t.Helper()
	code, body := get(t, p.Admin, "/metrics")
	if code != http.StatusOK {
		t.Fatalf("metrics: %d", code)
	}
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func simplePod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/none"}}},
	}
}

// allNative finds what a tenant must not see in what a webhook was sent.
func allNative(t *testing.T, r review) {
	t.Helper()
	for _, composite := range []string{"default.a", "default.b", "team.a", ".tenant", "a4s.io/tenant",
		`"tenant":`, "selfLink"} {
		if strings.Contains(r.raw, composite) {
			t.Errorf("%s in the review %s", composite, r.raw)
		}
	}
}

// serviceFor makes Service hook, whose endpoint is the server of the test.
func (h *hooks) serviceFor(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	ctx := t.Context()
	if _, err := client.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ready := true
	if _, err := client.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "hook-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{h.address},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports: []discoveryv1.EndpointPort{{Port: &h.port}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s *space) mutate(t *testing.T, name string, webhooks ...admissionregistrationv1.MutatingWebhook) {
	t.Helper()
	if _, err := s.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: webhooks,
		}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s *space) validate(t *testing.T, name string, webhooks ...admissionregistrationv1.ValidatingWebhook) {
	t.Helper()
	if _, err := s.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: webhooks,
		}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// tried creates a ConfigMap without keeping it.
func (s *space) tried(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	return s.client.CoreV1().ConfigMaps("default").Create(ctx, configMap(name),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

func testMutatingWebhooks(t *testing.T, p *plane, h *hooks, a, b *space) {
	ctx := t.Context()
	const ops = `[{"op":"add","path":"/metadata/annotations","value":{"seen":"yes"}},` +
		`{"op":"add","path":"/metadata/labels/mutated","value":"%s"}`
	for _, s := range []*space{a, b} {
		h.serviceFor(t, s.client)
		h.respond("/m/"+s.name, func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			if r.Operation != admissionv1.Create || r.Kind.Kind != "Pod" {
				return &admissionv1.AdmissionResponse{Allowed: true}
			}
			return patch(fmt.Sprintf(ops, s.name) +
				`,{"op":"replace","path":"/spec/containers/0/image","value":"example.com/` + s.name + `"}]`)(r)
		})
		inDefault := mutating("m", h.byService("/m/"+s.name), "pods", "namespaces", "persistentvolumes")
		inDefault.NamespaceSelector = &metav1.LabelSelector{
			MatchLabels: map[string]string{"kubernetes.io/metadata.name": "default"},
		}
		s.mutate(t, "hooks", inDefault)
	}
	trial := func(s *space, want string) (bool, error) {
		pod, err := s.client.CoreV1().Pods("default").Create(ctx, simplePod("trial"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsInternalError(err) && want != "" {
			return false, nil // it knows of the webhook, and not yet of its Service
		}
		return err == nil && pod.Labels["mutated"] == want, err
	}
	for _, s := range []*space{a, b} {
		eventually(t, "the webhook of "+s.name, func(context.Context) (bool, error) { return trial(s, s.name) })
	}
	if calls := h.calls("/m/a", "trial"); calls[0].DryRun == nil || !*calls[0].DryRun {
		t.Error("the webhook is not told that it is a dry run")
	}
	if _, err := a.client.CoreV1().Pods("default").Get(ctx, "trial", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod of a dry run: %v", err)
	}
	if n := p.plainMetric(t, "a4s_admission_tenants"); n != "2" {
		t.Errorf("the plugins of %s tenants are running", n)
	}
	for _, s := range []*space{a, b} {
		pod, err := s.client.CoreV1().Pods("default").Create(ctx, simplePod("web"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if pod.Namespace != "default" || pod.Labels["mutated"] != s.name || pod.Annotations["seen"] != "yes" ||
			pod.Spec.Containers[0].Image != "example.com/"+s.name {
			t.Errorf("mutated: %+v", pod)
		}
		if stored, err := p.admin.CoreV1().Pods("default."+s.name).Get(ctx, "web", metav1.GetOptions{}); err != nil ||
			stored.Labels["mutated"] != s.name {
			t.Errorf("stored: %v", err)
		}
		if _, err := s.client.CoreV1().PersistentVolumes().Create(ctx, netVolume("pv-"+s.name),
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		// What controllers make is the tenant's too.
		if _, err := s.client.AppsV1().Deployments("default").
			Create(ctx, deployment("deployed"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the pod of the deployment", func(ctx context.Context) (bool, error) {
			pods, err := s.client.CoreV1().Pods("default").List(ctx,
				metav1.ListOptions{LabelSelector: "app=deployed,mutated=" + s.name})
			return err == nil && len(pods.Items) == 1, err
		})
	}
	if _, err := p.admin.CoreV1().ConfigMaps("default").
		Create(ctx, configMap("of-the-system"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := a.client.CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	calls := append([]review(nil), h.seen["/m/a"]...)
	h.mu.Unlock()
	what := map[string]bool{}
	for _, r := range calls {
		allNative(t, r)
		what[string(r.Operation)+" "+r.Kind.Kind+" "+r.Namespace+"/"+r.Name+" by "+r.UserInfo.Username] = true
		if strings.Contains(r.raw, "pv-b") || strings.Contains(r.raw, "of-the-system") {
			t.Errorf("not of the tenant: %s", r.raw)
		}
	}
	for _, want := range []string{
		"CREATE Pod default/web by admin", "DELETE Pod default/web by admin", "CREATE PersistentVolume /pv-a by admin",
		"CREATE Pod default/ by system:serviceaccount:kube-system:replicaset-controller",
	} {
		if !what[want] {
			t.Errorf("not called for %s, but for %v", want, what)
		}
	}
	if len(h.calls("/m/a", "team")) > 0 {
		t.Error("called for a namespace that its selector leaves out")
	}
	for _, s := range []*space{a, b} {
		if err := s.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, "hooks",
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the webhook of "+s.name+" to go", func(context.Context) (bool, error) { return trial(s, "") })
	}
}

func testValidatingWebhooks(t *testing.T, p *plane, h *hooks, a, b *space) {
	ctx := t.Context()
	for _, s := range []*space{a, b} {
		h.respond("/v/"+s.name, func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			if strings.HasPrefix(r.Name, "bad-"+s.name) {
				return deny("no " + r.Name + " in " + r.Namespace)(r)
			}
			return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"seen " + r.Name}}
		})
		s.validate(t, "hooks", validating("v", h.byURL("/v/"+s.name), "configmaps", "namespaces"))
		eventually(t, "the webhook of "+s.name, func(ctx context.Context) (bool, error) {
			_, err := s.tried(ctx, "bad-"+s.name)
			return err != nil, nil
		})
	}
	_, err := a.client.CoreV1().ConfigMaps("default").Create(ctx, configMap("bad-a"), metav1.CreateOptions{})
	if want := `admission webhook "v.example.com" denied the request: no bad-a in default`; err == nil ||
		err.Error() != want {
		t.Errorf("refused with %v, want %s", err, want)
	}
	if _, err := a.tried(ctx, "bad-b"); err != nil {
		t.Errorf("refused by another tenant's: %v", err)
	}
	if _, err := p.admin.CoreV1().ConfigMaps("default").
		Create(ctx, configMap("bad-a"), metav1.CreateOptions{}); err != nil {
		t.Errorf("the system refused by a tenant's: %v", err)
	}
	// What the system writes in the space is none of the tenant's business.
	if _, err := p.admin.CoreV1().ConfigMaps("default.a").Create(ctx, configMap("bad-a-by-system"),
		metav1.CreateOptions{}); err != nil || len(h.calls("/v/a", "bad-a-by-system")) > 0 {
		t.Errorf("called for what the system makes in the space: %v", err)
	}
	if _, err := a.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "seen"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	calls := h.calls("/v/a", "seen")
	if len(calls) == 0 {
		t.Fatal("not called for a namespace")
	}
	if r := calls[0]; r.Name != "seen" || r.Namespace != "seen" ||
		!strings.Contains(r.raw, `"kubernetes.io/metadata.name":"seen"`) {
		t.Errorf("a namespace: %s", r.raw)
	}
	// A service account of the tenant.
	if _, err := a.client.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "edit"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "default"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := p.account(t, a, "default", "default", nil)
	eventually(t, "the role of the service account", func(ctx context.Context) (bool, error) {
		_, err := account.tried(ctx, "by-account")
		return err == nil, nil
	})
	for _, r := range h.calls("/v/a", "by-account") {
		allNative(t, r)
		if r.UserInfo.Username != "system:serviceaccount:default:default" ||
			!strings.Contains(r.raw, `"system:serviceaccounts:default"`) {
			t.Errorf("service account: %+v", r.UserInfo)
		}
	}
	for _, s := range []*space{a, b} {
		for _, r := range h.calls("/v/"+s.name, "") {
			allNative(t, r)
		}
		if err := s.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, "hooks",
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the webhook to go", func(ctx context.Context) (bool, error) {
		_, err := a.tried(ctx, "bad-a")
		return err == nil, nil
	})
}

// testReinvocation: what a later webhook changes is shown to an earlier one.
func testReinvocation(t *testing.T, h *hooks, a *space) {
	again := admissionregistrationv1.IfNeededReinvocationPolicy
	first := mutating("first", h.byURL("/r/first"), "configmaps")
	first.ReinvocationPolicy = &again
	a.mutate(t, "rounds", first, mutating("second", h.byURL("/r/second"), "configmaps"))
	h.respond("/r/second", patch(`[{"op":"add","path":"/data","value":{"by":"second"}}]`))
	eventually(t, "the webhooks", func(ctx context.Context) (bool, error) {
		cm, err := a.tried(ctx, "rounds")
		return err == nil && cm.Data["by"] == "second", err
	})
	before := len(h.calls("/r/first", "once"))
	if _, err := a.tried(t.Context(), "once"); err != nil {
		t.Fatal(err)
	}
	calls := h.calls("/r/first", "once")
	if before != 0 || len(calls) != 2 || !strings.Contains(calls[1].raw, `"by":"second"`) ||
		len(h.calls("/r/second", "once")) != 1 {
		t.Errorf("the first was called %d times, the second %d times", len(calls), len(h.calls("/r/second", "once")))
	}
	if err := a.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(t.Context(), "rounds",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func testFailurePolicy(t *testing.T, a *space) {
	nowhere := "https://" + outsideAddress + "250:1/"
	failing := validating("nowhere", admissionregistrationv1.WebhookClientConfig{URL: &nowhere}, "configmaps")
	a.validate(t, "nowhere", failing)
	var err error
	eventually(t, "the webhook to fail", func(ctx context.Context) (bool, error) {
		_, err = a.tried(ctx, "x")
		return err != nil, nil
	})
	if !apierrors.IsInternalError(err) ||
		!strings.Contains(err.Error(), `failed calling webhook "nowhere.example.com"`) {
		t.Errorf("failed with %v", err)
	}
	_, err = a.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(t.Context(), "nowhere",
		"application/json-patch+json",
		[]byte(`[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the failure to be ignored", func(ctx context.Context) (bool, error) {
		_, err := a.tried(ctx, "x")
		return err == nil, nil
	})
	if err := a.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "nowhere",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func testSystemWebhooks(t *testing.T, p *plane, h *hooks, a, b *space) {
	ctx := t.Context()
	system := p.as(t, "system", p.Admin)
	h.respond("/s", func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if r.Name == "forbidden" {
			return deny("not in " + r.Namespace)(r)
		}
		return &admissionv1.AdmissionResponse{Allowed: true}
	})
	system.validate(t, "system", validating("s", h.byURL("/s"), "configmaps", "persistentvolumes"))
	for _, s := range []*space{system, a, b} {
		var err error
		eventually(t, "the webhook of the system for "+s.name, func(ctx context.Context) (bool, error) {
			_, err = s.tried(ctx, "forbidden")
			return err != nil, nil
		})
		if want := `admission webhook "s.example.com" denied the request: not in default`; err.Error() != want {
			t.Errorf("%s is refused with %v, want %s", s.name, err, want)
		}
	}
	if _, err := a.client.CoreV1().PersistentVolumes().Create(ctx, netVolume("seen"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, r := range h.calls("/s", "") {
		found[r.Namespace+"/"+r.Name] = true
	}
	for _, want := range []string{"default/forbidden", "default.a/forbidden",
		"default.b/forbidden", "/seen.a.tenant"} {
		if !found[want] {
			t.Errorf("not called for %s, but for %v", want, found)
		}
	}
	if _, err := a.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "system",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a tenant sees the webhook of the system: %v", err)
	}
	if err := system.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, "system",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}
