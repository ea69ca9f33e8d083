package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func testNamespaceLifecycle(t *testing.T, _ *plane, s *space, namespace string) {
	ctx := t.Context()
	held := configMap("held")
	held.Finalizers = []string{"example.com/hold"}
	for _, cm := range []*corev1.ConfigMap{held, configMap("free")} {
		if _, err := s.client.CoreV1().ConfigMaps(namespace).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace to say what it waits for", func(ctx context.Context) (bool, error) {
		ns, err := s.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range ns.Status.Conditions {
			s.native(t, string(c.Type), c.Message)
		}
		return slices.ContainsFunc(ns.Status.Conditions, func(c corev1.NamespaceCondition) bool {
			return c.Type == corev1.NamespaceFinalizersRemaining && c.Status == corev1.ConditionTrue &&
				strings.Contains(c.Message, "example.com/hold")
		}), nil
	})
	_, err := s.client.CoreV1().ConfigMaps(namespace).Create(ctx, configMap("late"), metav1.CreateOptions{})
	if want := fmt.Sprintf(`configmaps "late" is forbidden: unable to create new content in namespace %s because it `+
		`is being terminated`, namespace); err == nil || err.Error() != want {
		t.Errorf("made in a namespace that is being deleted: %v", err)
	}
	if _, err := s.client.CoreV1().ConfigMaps(namespace).Patch(ctx, "held", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace to go", func(ctx context.Context) (bool, error) {
		_, err := s.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

func testQuota(t *testing.T, _ *plane, s *space, namespace string) {
	ctx := t.Context()
	if _, err := s.client.CoreV1().ResourceQuotas(namespace).Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": quantity("0")}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	used := func(quota, want string) func(ctx context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			q, err := s.client.CoreV1().ResourceQuotas(namespace).Get(ctx, quota, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			n, ok := q.Status.Used["count/secrets"]
			return ok && n.String() == want, nil
		}
	}
	eventually(t, "the quota to be counted", used("few", "0"))
	secret := func(name string, dryRun ...string) error {
		_, err := s.client.CoreV1().Secrets(namespace).Create(ctx,
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
	// Admission knows of the quota a moment later; until then all would pass.
	eventually(t, "the quota to hold", func(context.Context) (bool, error) {
		return apierrors.IsForbidden(secret("none", metav1.DryRunAll)), nil
	})
	more := []byte(`{"spec":{"hard":{"count/secrets":"1"}}}`)
	if _, err := s.client.CoreV1().ResourceQuotas(namespace).
		Patch(ctx, "few", types.MergePatchType, more, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first secret", func(context.Context) (bool, error) { return secret("first") == nil, nil })
	err := secret("second")
	if want := `secrets "second" is forbidden: exceeded quota: few, requested: count/secrets=1, used: ` +
		`count/secrets=1, limited: count/secrets=1`; !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("over the quota: %v", err)
	}
	// Upstream's controller writes no count that equals the one it remembers.
	// Were the secret gone before the controller has seen what admission
	// counted, the quota would stay full until the recount of all, minutes
	// later. It has seen that when it counts a quota that came after.
	if _, err := s.client.CoreV1().ResourceQuotas(namespace).Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "later"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": quantity("9")}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a later quota to be counted", used("later", "1"))
	if err := s.client.CoreV1().Secrets(namespace).Delete(ctx, "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the quota to be free again", used("few", "0"))
}

func testLimits(t *testing.T, _ *plane, s *space, namespace string) {
	ctx := t.Context()
	if _, err := s.client.CoreV1().LimitRanges(namespace).Create(ctx, &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "limits"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{"cpu": quantity("200m")},
			DefaultRequest: corev1.ResourceList{"cpu": quantity("100m")},
			Max:            corev1.ResourceList{"cpu": quantity("1")},
		}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the defaults", func(ctx context.Context) (bool, error) {
		pod, err := s.client.CoreV1().Pods(namespace).Create(ctx, simplePod("x"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false, err
		}
		r := pod.Spec.Containers[0].Resources
		return r.Limits.Cpu().String() == "200m" && r.Requests.Cpu().String() == "100m", nil
	})
	big := simplePod("big")
	big.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": quantity("2")}
	if _, err := s.client.CoreV1().Pods(namespace).Create(ctx, big,
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "maximum cpu usage per Container is 1") {
		t.Errorf("over the limit: %v", err)
	}
}

// warnings keeps those of a client.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) has(part string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.texts, func(s string) bool { return strings.Contains(s, part) })
}

func testPodSecurity(t *testing.T, _ *plane, s *space, namespace string) {
	ctx := t.Context()
	heard := &warnings{}
	cfg := rest.CopyConfig(s.config)
	cfg.WarningHandler = heard
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods(namespace).Create(ctx, simplePod("loose"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The plugin knows pods from an informer, which lags a moment.
	eventually(t, "a warning about the pod that is there", func(ctx context.Context) (bool, error) {
		for _, level := range []string{"privileged", "restricted"} {
			if _, err := client.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"`+level+
					`","pod-security.kubernetes.io/warn":"`+level+`"}}}`), metav1.PatchOptions{}); err != nil {
				return false, err
			}
		}
		return heard.has(`existing pods in namespace "` + namespace +
			`" violate the new PodSecurity enforce level "restricted:latest"`), nil
	})
	eventually(t, "the level to be enforced", func(ctx context.Context) (bool, error) {
		_, err = client.CoreV1().Pods(namespace).Create(ctx, simplePod("looser"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil, nil
	})
	if !apierrors.IsForbidden(err) ||
		!strings.HasPrefix(err.Error(), `pods "looser" is forbidden: violates PodSecurity "restricted:latest"`) {
		t.Errorf("refused with %v", err)
	}
	if _, err := client.AppsV1().Deployments(namespace).
		Create(ctx, deployment("web"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil ||
		!heard.has(`would violate PodSecurity "restricted:latest"`) {
		t.Errorf("warnings: %q, %v", heard.texts, err)
	}
	for _, text := range heard.texts {
		s.native(t, "warning", text)
	}
}

func testEviction(t *testing.T, p *plane, s *space, namespace string) {
	ctx := t.Context()
	one := intstr.FromInt32(1)
	if _, err := s.client.PolicyV1().PodDisruptionBudgets(namespace).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &one,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "one"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := s.client.CoreV1().Pods(namespace)
	for i, name := range []string{"one", "two"} {
		pod := simplePod(name)
		pod.Labels["app"] = "one"
		if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		p.runs(t, s, namespace, name, fmt.Sprintf("10.42.1.%d", i+1))
	}
	eventually(t, "the budget to be counted", func(ctx context.Context) (bool, error) {
		b, err := s.client.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, "keep", metav1.GetOptions{})
		return err == nil && b.Status.CurrentHealthy == 2 && b.Status.DisruptionsAllowed == 1, err
	})
	evict := func(name string) error {
		return pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}})
	}
	if err := evict("one"); err != nil {
		t.Errorf("evicting what the budget allows: %v", err)
	}
	if _, err := pods.Get(ctx, "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("an evicted pod: %v", err)
	}
	err := evict("two")
	if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "disruption budget") {
		t.Errorf("evicting more: %v", err)
	}
	s.native(t, "refusal", fmt.Sprint(err))
}

func testBulk(t *testing.T, _ *plane, s *space, namespace string) {
	ctx := t.Context()
	for _, ns := range []string{namespace, "default"} {
		for i := range 20 {
			cm := configMap(fmt.Sprintf("bulk-%d", i))
			cm.Labels = map[string]string{"bulk": "yes"}
			if _, err := s.client.CoreV1().ConfigMaps(ns).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.client.CoreV1().ConfigMaps(namespace).
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "bulk"}); err != nil {
		t.Fatal(err)
	}
	left, err := s.client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{LabelSelector: "bulk"})
	if err != nil || len(left.Items) != 20 || left.Items[0].Namespace != "default" {
		t.Errorf("left: %d, %v", len(left.Items), err)
	}
	// Names that the server makes up, of cluster-scoped kinds.
	for _, path := range []string{"/api/v1/persistentvolumes", "/apis/rbac.authorization.k8s.io/v1/clusterroles"} {
		body := `{"metadata":{"generateName":"made-"}`
		if strings.HasSuffix(path, "volumes") {
			body += `,"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadOnlyMany"],"storageClassName":"made",` +
				`"nfs":{"server":"nfs.example.com","path":"/"}}`
		}
		code, answer := do(t, s.config, http.MethodPost, path, body+"}", nil)
		if code != http.StatusCreated || !strings.Contains(answer, `"name":"made-`) ||
			strings.Contains(answer, ".tenant") {
			t.Errorf("POST %s: %d %s", path, code, answer)
		}
	}
}
