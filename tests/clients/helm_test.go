package clients

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/release"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
)

const (
	helmNamespace = "storefront"
	helmRelease   = "shop"
)

// helm is Helm in one namespace of a tenant.
type helm struct {
	*action.Configuration
	client kubernetes.Interface
	chart  *chart.Chart
}

func newHelm(t *testing.T, s *space, kubeconfig string) *helm {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	namespace, cache := helmNamespace, t.TempDir()
	flags.KubeConfig, flags.Namespace, flags.CacheDir = &kubeconfig, &namespace, &cache
	h := &helm{Configuration: &action.Configuration{}, client: s.client(t)}
	if err := h.Init(flags, helmNamespace, "secret", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.chart, err = loader.Load("testdata/chart"); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *helm) install(t *testing.T, values map[string]any) *release.Release {
	t.Helper()
	install := action.NewInstall(h.Configuration)
	install.ReleaseName, install.Namespace, install.CreateNamespace, install.Timeout = helmRelease,
		helmNamespace, true, deadline
	made, err := install.RunWithContext(t.Context(), h.chart, values)
	if err != nil {
		t.Fatalf("helm install: %v", err)
	}
	return made
}

func (h *helm) upgrade(t *testing.T, values map[string]any) *release.Release {
	t.Helper()
	upgrade := action.NewUpgrade(h.Configuration)
	upgrade.Namespace, upgrade.ReuseValues, upgrade.Timeout = helmNamespace, true, deadline
	made, err := upgrade.RunWithContext(t.Context(), helmRelease, h.chart, values)
	if err != nil {
		t.Fatalf("helm upgrade: %v", err)
	}
	return made
}

// history is "revision status" of each revision, oldest first.
func (h *helm) history(t *testing.T) []string {
	t.Helper()
	all, err := action.NewHistory(h.Configuration).Run(helmRelease)
	if err != nil {
		t.Fatalf("helm history: %v", err)
	}
	slices.SortFunc(all, func(a, b *release.Release) int { return a.Version - b.Version })
	var out []string
	for _, r := range all {
		out = append(out, fmt.Sprintf("%d %s", r.Version, r.Info.Status))
	}
	return out
}

// list is "namespace/name" of the releases in all namespaces.
func (h *helm) list(t *testing.T) []string {
	t.Helper()
	list := action.NewList(h.Configuration)
	list.All = true
	all, err := list.Run()
	if err != nil {
		t.Fatalf("helm list: %v", err)
	}
	var out []string
	for _, r := range all {
		out = append(out, r.Namespace+"/"+r.Name)
	}
	return out
}

func (h *helm) settings(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	cm, err := h.client.CoreV1().ConfigMaps(helmNamespace).Get(t.Context(), helmRelease, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cm
}

func (h *helm) deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d, err := h.client.AppsV1().Deployments(helmNamespace).Get(t.Context(), helmRelease, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestHelm installs one release of the same name in both tenants and then
// moves them apart.
func TestHelm(t *testing.T) {
	t.Parallel()
	// Clients in both forms of address take part.
	a, b := newHelm(t, acme, acme.prefixed), newHelm(t, globex, globex.byIdentity)

	made := a.install(t, map[string]any{"greeting": "hello from acme"})
	if made.Info.Status != release.StatusDeployed ||
		!strings.Contains(made.Info.Notes, "hello from acme from shop in storefront, revision 1") {
		t.Errorf("installed: status %s, notes %q", made.Info.Status, made.Info.Notes)
	}
	if got := b.list(t); len(got) != 0 {
		t.Errorf("the other tenant has releases before he installed one: %v", got)
	}
	b.install(t, map[string]any{"greeting": "hello from globex", "replicas": 5})

	if got := a.history(t); !slices.Equal(got, []string{"1 deployed"}) {
		t.Errorf("history after installing: %q", got)
	}
	checkLookups(t, a, b)
	eventuallyReplicas(t, a, 2)
	eventuallyReplicas(t, b, 5)

	a.upgrade(t, map[string]any{"greeting": "goodbye", "replicas": 3})
	if got := a.settings(t).Data["greeting"]; got != "goodbye" {
		t.Errorf("upgraded: greeting %q", got)
	}
	if got := b.settings(t).Data["greeting"]; got != "hello from globex" {
		t.Errorf("the upgrade reached the other tenant: greeting %q", got)
	}
	eventuallyReplicas(t, a, 3)
	status, err := action.NewStatus(a.Configuration).Run(helmRelease)
	if err != nil {
		t.Fatalf("helm status: %v", err)
	}
	if status.Version != 2 || status.Info.Status != release.StatusDeployed || status.Namespace != helmNamespace {
		t.Errorf("helm status: revision %d, %s, namespace %s", status.Version, status.Info.Status, status.Namespace)
	}

	rollback := action.NewRollback(a.Configuration)
	rollback.Version, rollback.Timeout = 1, deadline
	if err := rollback.Run(helmRelease); err != nil {
		t.Fatalf("helm rollback: %v", err)
	}
	if got := a.settings(t).Data["greeting"]; got != "hello from acme" {
		t.Errorf("rolled back: greeting %q", got)
	}
	eventuallyReplicas(t, a, 2)
	if got, want := a.history(t), []string{"1 superseded", "2 superseded", "3 deployed"}; !slices.Equal(got, want) {
		t.Errorf("history %q, want %q", got, want)
	}
	if got, want := a.list(t), []string{"storefront/shop"}; !slices.Equal(got, want) {
		t.Errorf("releases %q, want %q", got, want)
	}
	checkStorage(t, a, 3)
	checkStorage(t, b, 1)

	uninstall := action.NewUninstall(a.Configuration)
	uninstall.Timeout = deadline
	if _, err := uninstall.Run(helmRelease); err != nil {
		t.Fatalf("helm uninstall: %v", err)
	}
	checkUninstalled(t, a)
	// The other tenant's release of that name is whole.
	if got := b.deployment(t).Annotations["meta.helm.sh/release-name"]; got != helmRelease {
		t.Errorf("the other tenant's Deployment is of release %q", got)
	}
	if _, err := b.client.RbacV1().ClusterRoles().Get(t.Context(), "shop-namespaces",
		metav1.GetOptions{}); err != nil {
		t.Errorf("the other tenant's ClusterRole: %v", err)
	}
	b.upgrade(t, map[string]any{"greeting": "still here"})
	if got := b.settings(t).Data["greeting"]; got != "still here" {
		t.Errorf("the other tenant's upgrade: greeting %q", got)
	}
}

// checkLookups looks at what the templates found in each cluster.
func checkLookups(t *testing.T, a, b *helm) {
	t.Helper()
	first, second := a.settings(t).Data, b.settings(t).Data
	for _, data := range []map[string]string{first, second} {
		if data["hasDaemonSets"] != "true" || data["hasDeployments"] != "true" {
			t.Errorf("capabilities: DaemonSets %s, Deployments %s", data["hasDaemonSets"], data["hasDeployments"])
		}
		namespaces := strings.Fields(data["namespaces"])
		if !slices.Contains(namespaces, "default") || !slices.Contains(namespaces, "kube-system") ||
			slices.ContainsFunc(namespaces, notNative) {
			t.Errorf("a template sees the namespaces %q", namespaces)
		}
	}
	if first["systemNamespaceUID"] == "" || first["systemNamespaceUID"] == second["systemNamespaceUID"] {
		t.Errorf("kube-system has the UID %q in one tenant and %q in the other", first["systemNamespaceUID"],
			second["systemNamespaceUID"])
	}
}

// notNative tells names of namespaces that no tenant may see.
func notNative(name string) bool { return strings.Contains(name, ".") }

// eventuallyReplicas waits until the controllers have followed the chart.
func eventuallyReplicas(t *testing.T, h *helm, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d pods of the release", want), func(ctx context.Context) error {
		pods, err := h.client.CoreV1().Pods(helmNamespace).List(ctx,
			metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + helmRelease})
		if err != nil {
			return err
		}
		alive := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
		if len(alive) != want {
			return fmt.Errorf("there are %d", len(alive))
		}
		return nil
	})
}

// checkStorage looks for the records of the release in the tenant.
func checkStorage(t *testing.T, h *helm, revisions int) {
	t.Helper()
	secrets, err := h.client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, s := range secrets.Items {
		got = append(got, s.Namespace+"/"+s.Name)
	}
	for i := range revisions {
		want = append(want, fmt.Sprintf("%s/sh.helm.release.v1.%s.v%d", helmNamespace, helmRelease, i+1))
	}
	if !slices.Equal(got, want) {
		t.Errorf("Secrets of Helm: %q, want %q", got, want)
	}
}

func checkUninstalled(t *testing.T, h *helm) {
	t.Helper()
	if got := h.list(t); len(got) != 0 {
		t.Errorf("uninstalled, but there is %q", got)
	}
	checkStorage(t, h, 0)
	ctx := t.Context()
	eventually(t, "the objects of the release to be gone", func(context.Context) error {
		for what, get := range map[string]func() (any, error){
			"Deployment": func() (any, error) {
				return h.client.AppsV1().Deployments(helmNamespace).Get(ctx, helmRelease, metav1.GetOptions{})
			},
			"Service": func() (any, error) {
				return h.client.CoreV1().Services(helmNamespace).Get(ctx, helmRelease, metav1.GetOptions{})
			},
			"ConfigMap": func() (any, error) {
				return h.client.CoreV1().ConfigMaps(helmNamespace).Get(ctx, helmRelease, metav1.GetOptions{})
			},
			"ClusterRole": func() (any, error) {
				return h.client.RbacV1().ClusterRoles().Get(ctx, helmRelease+"-namespaces", metav1.GetOptions{})
			},
			"ClusterRoleBinding": func() (any, error) {
				return h.client.RbacV1().ClusterRoleBindings().Get(ctx, helmRelease+"-namespaces", metav1.GetOptions{})
			},
		} {
			if _, err := get(); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s: %v, not a missing one", what, err)
			}
		}
		return nil
	})
}
