package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/tests/hosts"
)

const metricsPath = "/apis/metrics.k8s.io/v1beta1"

// TestMetrics: kubectl top and autoscalers know what pods of every space use,
// and nobody sees those of another.
func TestMetrics(t *testing.T) {
	t.Parallel()
	system := sharedCluster(t)
	a, b := system.makeTenant(t, "metrics-a"), system.makeTenant(t, "metrics-b")
	for _, c := range []*cluster{system, a} {
		web := deployment("metered", 1)
		web.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("10m"),
			corev1.ResourceMemory: resource.MustParse("1Mi"),
		}
		if _, err := c.client.AppsV1().Deployments("default").
			Create(t.Context(), web, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.client.AutoscalingV2().HorizontalPodAutoscalers("default").
			Create(t.Context(), autoscaler("metered"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		_ = system.client.AutoscalingV2().HorizontalPodAutoscalers("default").Delete(context.Background(), "metered",
			metav1.DeleteOptions{})
		_ = system.client.AppsV1().Deployments("default").Delete(context.Background(), "metered",
			metav1.DeleteOptions{})
	})
	for _, c := range []*cluster{system, a} {
		hosts.Until(t, podTimeout, "kubectl top shows the pods of "+c.space(), func(context.Context) error {
			r := c.a4s(t, "kubectl", "top", "pods", "-n", "default", "--no-headers")
			for line := range strings.Lines(r.Stdout) {
				// NAME CPU(cores) MEMORY(bytes)
				if f := strings.Fields(line); len(f) == 3 && strings.HasPrefix(f[0], "metered-") &&
					strings.HasSuffix(f[1], "m") && strings.HasSuffix(f[2], "Mi") && f[2] != "0Mi" {
					return nil
				}
			}
			return fmt.Errorf("exit code %d: %s%s", r.ExitCode, r.Stdout, r.Stderr)
		})
	}
	t.Run("of nodes", func(t *testing.T) {
		var out string
		// A rate takes two looks at the node, and pods may have had theirs.
		hosts.Until(t, podTimeout, "kubectl top shows the node", func(context.Context) error {
			r := system.a4s(t, "kubectl", "top", "nodes", "--no-headers")
			if out = r.Stdout; r.ExitCode != 0 {
				return errors.New(r.Stderr)
			}
			return nil
		})
		// NAME CPU(cores) CPU(%) MEMORY(bytes) MEMORY(%)
		if f := strings.Fields(out); len(f) < 5 || f[0] != system.host.Name || !strings.HasSuffix(f[1], "m") ||
			f[1] == "0m" || !strings.HasSuffix(f[3], "Mi") {
			t.Errorf("kubectl top nodes: %s", out)
		}
		if code, body := rawGet(t, a.client, metricsPath+"/nodes"); code != http.StatusForbidden ||
			!strings.Contains(body, "nodes belong to the cluster") {
			t.Errorf("a tenant and the nodes: %d %s", code, body)
		}
	})
	t.Run("of one space", func(t *testing.T) {
		ofA, ofB := system.plain(t, a), system.plain(t, b)
		for _, path := range []string{metricsPath + "/pods", "/tenants/metrics-a" + metricsPath + "/pods"} {
			code, body := rawGet(t, ofA, path)
			if code != http.StatusOK || !strings.Contains(body, `"name":"metered-`) ||
				!strings.Contains(body, `"namespace":"default"`) {
				t.Errorf("%s: %d %s", path, code, body)
			}
			if strings.Contains(body, "metrics-a.") || strings.Contains(body, ".metrics-a\"") ||
				strings.Count(body, `"containers"`) != 1 {
				t.Errorf("%s shows more than the space: %s", path, body)
			}
		}
		if code, body := rawGet(t, b.client, metricsPath+"/pods"); code != http.StatusOK ||
			strings.Contains(body, "metered") {
			t.Errorf("another tenant: %d %s", code, body)
		}
		if code, body := rawGet(t, ofB,
			"/tenants/metrics-a"+metricsPath+"/namespaces/default/pods"); code != http.StatusForbidden {
			t.Errorf("another tenant who addresses the space: %d %s", code, body)
		}
		if code, body := rawGet(t, b.client, metricsPath+"/namespaces/default/pods"); code != http.StatusOK ||
			strings.Contains(body, "metered") {
			t.Errorf("the same namespace of another tenant: %d %s", code, body)
		}
		if code, body := rawGet(t, system.client, metricsPath+"/pods"); code != http.StatusOK ||
			!strings.Contains(body, `"namespace":"default.metrics-a"`) {
			t.Errorf("the administrator of the cluster: %d %s", code, body)
		}
	})
	t.Run("for autoscalers", func(t *testing.T) {
		for _, c := range []*cluster{system, a} {
			hosts.Until(t, startTimeout, "the autoscaler of "+c.space()+" has a metric",
				func(ctx context.Context) error {
					hpa, err := c.client.AutoscalingV2().HorizontalPodAutoscalers("default").Get(ctx, "metered",
						metav1.GetOptions{})
					if err != nil {
						return err
					}
					for _, m := range hpa.Status.CurrentMetrics {
						if m.Resource != nil && m.Resource.Name == corev1.ResourceCPU &&
							m.Resource.Current.AverageUtilization != nil {
							return nil
						}
					}
					return fmt.Errorf("%+v", hpa.Status)
				})
		}
	})
}

func autoscaler(of string) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: of},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1",
				Kind: "Deployment", Name: of},
			MinReplicas: new(int32(1)), MaxReplicas: 1,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name: corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType,
						AverageUtilization: new(int32(50))},
				}}},
		},
	}
}

// plain is a client of the tenant's user whose paths name no tenant by
// themselves, as those of their kubeconfig do.
func (c *cluster) plain(t *testing.T, tenant *cluster) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(tenant.config)
	config.Host = c.url()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// space is what messages call the space that the cluster is seen from.
func (c *cluster) space() string {
	if c.tenant == "" {
		return "the system"
	}
	return "tenant " + c.tenant
}

// rawGet asks the API for a path.
func rawGet(t *testing.T, client kubernetes.Interface, path string) (code int, body string) {
	t.Helper()
	result := client.Discovery().RESTClient().Get().AbsPath(path).
		SetHeader("Accept", "application/json").Do(t.Context())
	result.StatusCode(&code)
	raw, err := result.Raw()
	if err != nil && code == 0 {
		t.Fatal(err)
	}
	return code, string(raw)
}

// TestManifests: what is in the directory of a real server is in the API, and
// what is wrong with it is an event.
func TestManifests(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "manifests", "--disable-agent", "--disable", "metrics-server,runtimeclasses")
	dir := dataDir + "/server/manifests"
	write := func(name, text string) {
		t.Helper()
		if err := c.host.WriteFile(dir+"/"+name, text); err != nil {
			t.Fatal(err)
		}
	}
	write("app/site.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: site}\ndata: {a: b}\n")
	write("broken.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fine}\n---\nkind: [\n")
	configMap := func(ctx context.Context, name string) error {
		_, err := c.client.CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{})
		return err
	}
	hosts.Until(t, soon, "the manifest is applied", func(ctx context.Context) error { return configMap(ctx, "site") })
	hosts.Until(t, soon, "kubectl get events shows the mistake", func(context.Context) error {
		out := c.must(t, "kubectl", "get", "events", "-n", "kube-system")
		if !strings.Contains(out, "ParseManifestFailed") ||
			!strings.Contains(out, "broken.yaml: document 2 (line 4)") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	if err := configMap(t.Context(), "fine"); !apierrors.IsNotFound(err) {
		t.Errorf("half of a broken manifest is applied: %v", err)
	}
	write("app/site.yaml", "# nothing any more\n")
	hosts.Until(t, soon, "what left the manifest is deleted", func(ctx context.Context) error {
		if err := configMap(ctx, "site"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
	if info, err := os.Stat(c.host.Path(dir)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of manifests: %v, %v", info.Mode(), err)
	}
	if code, body := rawGet(t, c.client, metricsPath); code != http.StatusNotFound {
		t.Errorf("disabled metrics: %d %s", code, body)
	}
	if list, err := c.client.NodeV1().RuntimeClasses().List(t.Context(), metav1.ListOptions{}); err != nil ||
		len(list.Items) > 0 {
		t.Errorf("disabled runtime classes: %+v, %v", list, err)
	}
	if r := command(t, c.host, "server", "--disable", "egress"); r.ExitCode == 0 ||
		!strings.Contains(r.Stderr, `"egress"`) || !strings.Contains(r.Stderr, "metrics-server") {
		t.Errorf("an unknown name: exit code %d, %s", r.ExitCode, r.Stderr)
	}
}
