package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/hosts"
)

// inEverySpace runs a test in the space of the system and in that of a tenant:
// what works in the one works in the other.
func inEverySpace(t *testing.T, test func(*testing.T, *cluster)) {
	t.Helper()
	t.Parallel()
	t.Run("system", func(t *testing.T) {
		t.Parallel()
		test(t, sharedCluster(t))
	})
	t.Run("tenant", func(t *testing.T) {
		t.Parallel()
		test(t, sharedCluster(t).makeTenant(t, "e2e"))
	})
}

// makeTenant makes a tenant, unless it is there, and returns the cluster as
// its administrator sees it.
func (c *cluster) makeTenant(t *testing.T, name string) *cluster {
	t.Helper()
	// Its pods go to nodes that are kept for one test as well.
	tenant := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name,
		Annotations: map[string]string{"a4s.io/tolerations": passingTaint}}}
	if _, err := c.tenants(t).Create(t.Context(), tenant, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	file := "/run/" + strings.ReplaceAll(t.Name(), "/", "-") + "-" + name + ".yaml"
	c.must(t, "tenant", "create", name, "--output", file, "--server", c.url())
	content, err := os.ReadFile(c.host.Path(file))
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 500, 1000
	config.Timeout = soon
	own := *c
	own.tenant, own.config = name, config
	if own.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return &own
}

func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	system := sharedCluster(t)
	a, b := system.makeTenant(t, "apart-a"), system.makeTenant(t, "apart-b")
	ns := system.namespace(t)
	var pods []*corev1.Pod
	var services []*corev1.Service
	for _, c := range []*cluster{a, b} {
		// Not called like the Service: a pod knows its own name from a file.
		pod := testboxPod("box")
		pod.Labels["app"] = "web"
		pods = append(pods, c.runPod(t, "default", pod))
		services = append(services, c.createService(t, "default", service("web", "web")))
	}
	stranger := system.runPod(t, ns, testboxPod("stranger"))
	shared := testboxPod("shared")
	shared.Annotations = map[string]string{"a4s.io/shared": "true"}
	offered := system.runPod(t, ns, shared)
	url := func(ip string) string { return "http://" + ip + ":8080/hostname" }

	t.Run("a name is the tenant's own", func(t *testing.T) {
		for i, c := range []*cluster{a, b} {
			for _, name := range []string{"web", "web.default", "web.default.svc.cluster.local"} {
				c.waitAnswer(t, "default", "box", services[i].Spec.ClusterIP, "/resolve", "name", name)
			}
		}
		for _, name := range []string{"web.default.apart-b.svc.cluster.local", "web.default.apart-b",
			"web." + ns + ".svc.cluster.local"} {
			if got, err := a.ask(t.Context(), "default", "box", "/resolve", "name", name); err == nil {
				t.Errorf("%s resolves to %s", name, got)
			}
		}
	})
	t.Run("traffic between tenants is dropped", func(t *testing.T) {
		a.waitAnswer(t, "default", "box", "box", "/get", "url", "http://web/hostname")
		for what, to := range map[string]string{
			"the pod of the other tenant":     url(pods[1].Status.PodIP),
			"the service of the other tenant": "http://" + services[1].Spec.ClusterIP + "/hostname",
			"a pod of the system":             url(stranger.Status.PodIP),
		} {
			hosts.Until(t, soon, what+" cannot be reached", func(ctx context.Context) error {
				if got, err := a.ask(ctx, "default", "box", "/get", "url", to); err == nil {
					return fmt.Errorf("%s answers %q", to, got)
				}
				return nil
			})
		}
		system.waitAnswer(t, ns, stranger.Name, "box", "/get", "url", url(pods[0].Status.PodIP))
		a.waitAnswer(t, "default", "box", offered.Name, "/get", "url", url(offered.Status.PodIP))
	})
	t.Run("the API is reached by its name", func(t *testing.T) {
		if _, err := a.client.CoreV1().Services("default").
			Get(t.Context(), "kubernetes", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
		a.waitAnswer(t, "default", "box", "10.43.0.1", "/resolve", "name", "kubernetes.default.svc")
	})
	t.Run("what a pod sees is native", func(t *testing.T) {
		box := testboxPod("native")
		box.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NS",
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}
		box.Spec.Volumes = []corev1.Volume{
			{Name: "self", VolumeSource: corev1.VolumeSource{
				DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
					{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}},
					{Path: "annotations", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"}},
					{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
				}},
			}},
		}
		box.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "self", MountPath: "/self"}}
		a.runPod(t, "default", box)
		for _, c := range []struct{ path, param, of, want string }{
			{"/env", "name", "NS", "default"},
			{"/env", "name", "KUBERNETES_SERVICE_HOST", "10.43.0.1"},
			{"/file", "path", "/self/namespace", "default"},
			{"/file", "path", "/var/run/secrets/kubernetes.io/serviceaccount/namespace", "default"},
		} {
			if got, err := a.ask(t.Context(), "default", "native", c.path, c.param, c.of); err != nil ||
				got != c.want {
				t.Errorf("%s is %q (%v), want %q", c.of, got, err, c.want)
			}
		}
		for _, file := range []string{"/etc/resolv.conf", "/etc/hosts", "/self/annotations", "/self/labels",
			"/proc/self/environ"} {
			got, err := a.ask(t.Context(), "default", "native", "/file", "path", file)
			if err != nil || strings.Contains(got, "apart-a") {
				t.Errorf("%s is %q (%v)", file, got, err)
			}
		}
	})
}

func TestTenantCommands(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	own := c.makeTenant(t, "commands")
	if out := c.must(t, "tenant", "list"); !strings.Contains(out, "commands") || !strings.Contains(out, "Active") {
		t.Errorf("tenant list: %s", out)
	}
	// A second run finds everything there.
	c.must(t, "tenant", "create", "commands")
	own.must(t, "kubectl", "create", "deployment", "nothing", "--image=example.com/none", "--replicas=0")
	if out := own.must(t, "kubectl", "get", "namespaces,deployments", "-A", "-o", "name"); !strings.Contains(out,
		"namespace/default") || strings.Contains(out, "commands") {
		t.Errorf("kubectl --tenant: %s", out)
	}
	if out := c.must(t, "kubectl", "get", "te", "commands"); !strings.Contains(out, "Active") {
		t.Errorf("kubectl get te: %s", out)
	}
	if r := c.a4s(t, "kubectl", "--tenant", "comands", "get", "pods"); r.ExitCode == 0 ||
		!strings.Contains(r.Stderr, "commands") {
		t.Errorf("an unknown tenant: %+v", r)
	}
	if r := c.a4s(t, "tenant", "create", "Not_A_Name"); r.ExitCode != 1 {
		t.Errorf("a bad name: %+v", r)
	}
	c.must(t, "tenant", "delete", "commands")
	if r := c.a4s(t, "tenant", "kubeconfig", "commands"); r.ExitCode == 0 {
		t.Error("a kubeconfig for a tenant that is gone")
	}
	hosts.Until(t, soon, "its user is refused", func(ctx context.Context) error {
		if _, err := own.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err == nil {
			return errors.New("the user of a deleted tenant still lists pods")
		}
		return nil
	})
}
