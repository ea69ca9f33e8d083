package partitionfaults_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/process"
)

// command runs a4s as somebody whose kubeconfig this is.
func (f *teams) command(t *testing.T, config *rest.Config, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	written := clientcmdapi.NewConfig()
	written.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	written.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: config.BearerToken,
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	written.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	written.CurrentContext = "x"
	must(t, clientcmd.WriteToFile(*written, file))
	out, err := process.CombinedOutput(exec.Command(f.servers[0].binary, append(args, "--kubeconfig", file)...))
	if err != nil {
		t.Fatalf("a4s %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// rolledOut waits until the command of the documentation says that all teams have the template, and looks whether
// those have it that it was changed for.
func (f *teams) rolledOut(t *testing.T, before []string) {
	t.Helper()
	f.command(t, f.admin, "kubectl", "wait", "tenanttemplate", "team", "--for=condition=RolledOut", "--timeout=3m")
	for _, name := range before {
		is, err := f.inSpace(t, name).CoreV1().ConfigMaps("apps").Get(t.Context(), "team", metav1.GetOptions{})
		if err != nil || is.Data["value"] != f.says() {
			t.Errorf("the template is rolled out, and %s has %+v, %v", name, is, err)
		}
	}
}

// kinds are what teams have some of.
func kinds() []schema.GroupVersionResource {
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	return []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("namespaces"),
		corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
		corev1.SchemeGroupVersion.WithResource("configmaps"),
		corev1.SchemeGroupVersion.WithResource("secrets"),
		corev1.SchemeGroupVersion.WithResource("limitranges"),
		{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
		rbac.WithResource("roles"), rbac.WithResource("rolebindings"),
		rbac.WithResource("clusterroles"), rbac.WithResource("clusterrolebindings"),
		tenantapi.GroupVersion().WithResource(tenantapi.Resource), tenantapi.AccessGroupVersionResource(),
	}
}

// those of the objects of the cluster that belong to teams, by resource, namespace and name as the system sees them.
// The UIDs of accesses in the names of bindings are left out.
func those(ctx context.Context, s *server) (map[string]int, error) {
	client, err := metadata.NewForConfig(s.config)
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, kind := range kinds() {
		list, err := client.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Resource, err)
		}
		for i := range list.Items {
			is := &list.Items[i]
			tenant, _ := space.SplitNamespace(is.Namespace)
			of, native := space.SplitClusterName(is.Name)
			ofNamespace, _ := space.SplitNamespace(is.Name)
			named := kind.Resource == tenantapi.Resource || kind.Resource == tenantapi.Accesses ||
				kind.Resource == "namespaces" && !space.IsSystem(ofNamespace)
			if space.IsSystem(tenant) && space.IsSystem(of) && !named && is.Namespace != "flux-system" {
				continue
			}
			name := is.Name
			if access, ok := strings.CutPrefix(native, "a4s:access:"); ok {
				access, _, _ = strings.Cut(access, ":")
				name = space.ClusterName(of, "a4s:access:"+access)
			}
			out[kind.Resource+" "+is.Namespace+"/"+name]++
		}
	}
	return out, nil
}

// whole are the objects of a team that has all it shall have.
func (f *teams) whole(team string) []string {
	out := []string{"tenants /" + team, "tenantaccesses /flux-" + team, "secrets flux-system/" + team,
		"clusterroles /" + space.ClusterName(team, "admin-role"),
		"clusterrolebindings /" + space.ClusterName(team, "admin-role-binding"),
		"clusterrolebindings /" + space.ClusterName(team, "a4s:access:flux-"+team)}
	in := func(namespace string, objects ...string) {
		composite := space.Namespace(team, namespace)
		out = append(out, "namespaces /"+composite)
		for _, o := range append(objects, "serviceaccounts default", "configmaps kube-root-ca.crt") {
			resource, name, _ := strings.Cut(o, " ")
			out = append(out, resource+" "+composite+"/"+name)
		}
	}
	in("default", "secrets registry")
	in("kube-public")
	in("kube-system", "configmaps extension-apiserver-authentication",
		"roles extension-apiserver-authentication-reader")
	in("apps", "limitranges defaults", "networkpolicies own", "rolebindings platform", "configmaps team",
		"configmaps of-"+f.says())
	return out
}

// complete waits until every server has every team as a whole: what it shall have, once, and nothing else.
func (f *teams) complete(t *testing.T, when string) {
	t.Helper()
	want := map[string]int{"tenants /system": 1}
	for _, o := range []string{"serviceaccounts default", "configmaps kube-root-ca.crt"} {
		resource, name, _ := strings.Cut(o, " ")
		want[resource+" flux-system/"+name] = 1
	}
	for _, team := range f.made {
		for _, o := range f.whole(team) {
			want[o]++
		}
	}
	for _, s := range f.servers {
		hosts.Until(t, settled, when+": all teams are whole at "+s.name, func(ctx context.Context) error {
			have, err := those(ctx, s)
			if err != nil {
				return err
			}
			var wrong []string
			for o, n := range want {
				if have[o] != n {
					wrong = append(wrong, fmt.Sprintf("%s: %d", o, have[o]))
				}
			}
			for o, n := range have {
				if want[o] == 0 && !strings.HasPrefix(o, "configmaps kube-") {
					wrong = append(wrong, fmt.Sprintf("%s, which nobody wants: %d", o, n))
				}
			}
			if len(wrong) > 0 {
				slices.Sort(wrong)
				return errors.New(strings.Join(wrong, "\n"))
			}
			return f.current(ctx, s)
		})
	}
}

// current looks at what the kept objects say, and at the conditions of the teams and their accesses.
func (f *teams) current(ctx context.Context, s *server) error {
	says := map[string]string{}
	maps, err := s.client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=team"})
	if err != nil {
		return err
	}
	for i := range maps.Items {
		says[maps.Items[i].Data["name"]] = maps.Items[i].Data["value"]
	}
	secrets, err := s.client.CoreV1().Secrets("").List(ctx,
		metav1.ListOptions{FieldSelector: "metadata.name=registry"})
	if err != nil {
		return err
	}
	copied := map[string]string{}
	for i := range secrets.Items {
		tenant, _ := space.SplitNamespace(secrets.Items[i].Namespace)
		copied[tenant] = string(secrets.Items[i].Data["value"])
	}
	tenants, err := tenantapi.NewClient(s.config, nil)
	if err != nil {
		return err
	}
	accesses, err := tenantapi.NewAccessClient(s.config, nil)
	if err != nil {
		return err
	}
	for _, team := range f.made {
		is, err := tenants.Get(ctx, team, metav1.GetOptions{})
		if err != nil {
			return err
		}
		access, err := accesses.Get(ctx, "flux-"+team, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if says[team] != f.says() || copied[team] != f.says() || is.Labels["example.com/kind"] != "team" ||
			!isTrue(is.Status.Conditions, tenantapi.TemplateApplied) ||
			!isTrue(is.Status.Conditions, tenantapi.SpaceReady) ||
			!isTrue(access.Status.Conditions, tenantapi.AccessReady) || access.Status.TenantUID != is.UID {
			return fmt.Errorf("%s has %q, its Secret %q, and the status %+v, and that of its access is %+v", team,
				says[team], copied[team], is.Status, access.Status)
		}
	}
	return nil
}

func isTrue(conditions []metav1.Condition, of string) bool {
	return slices.ContainsFunc(conditions, func(c metav1.Condition) bool {
		return c.Type == of && c.Status == metav1.ConditionTrue
	})
}

// asAlice is her login, at an address.
func (f *teams) asAlice(at, token string) *rest.Config {
	config := rest.AnonymousClientConfig(f.admin)
	config.Host, config.BearerToken, config.QPS, config.Timeout = at, token, -1, patience
	return config
}

// inApps asks for what is in the namespace apps of a team.
func inApps(ctx context.Context, config *rest.Config, team string) error {
	client, err := kubernetes.NewForConfig(tenantapi.InSpace(config, team))
	if err == nil {
		_, err = client.CoreV1().ConfigMaps("apps").List(ctx, metav1.ListOptions{})
	}
	return err
}

// loginsCount has alice log in, at each server: she sees her teams, and gets into no other.
func (f *teams) loginsCount(t *testing.T, when string) {
	t.Helper()
	token := f.provider.Login(t, "alice")
	listed := strings.Fields(f.command(t, f.asAlice(f.front.address+"/tenants/"+ofAlice[1], token), "tenant", "list",
		"--output", "name"))
	for i := range listed {
		listed[i] = listed[i][strings.LastIndex(listed[i], "/")+1:]
	}
	if !slices.Equal(slices.Sorted(slices.Values(listed)), ofAlice) {
		t.Errorf("%s: the tenants of alice are %q", when, listed)
	}
	for _, s := range f.servers {
		for _, team := range f.made {
			err := inApps(t.Context(), f.asAlice(s.url(), token), team)
			if hers := slices.Contains(ofAlice, team); hers && err != nil || !hers && !apierrors.IsForbidden(err) {
				t.Errorf("%s: alice in %s at %s: %v", when, team, s.name, err)
			}
		}
	}
}

// accessesWork uses the kubeconfig of each team as it is, and for another team.
func (f *teams) accessesWork(t *testing.T, when string) {
	t.Helper()
	for i, team := range f.made {
		secret, err := f.client.CoreV1().Secrets("flux-system").Get(t.Context(), team, metav1.GetOptions{})
		must(t, err)
		config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
		must(t, err)
		if config.Host != f.front.address+"/tenants/"+team {
			t.Errorf("%s: the kubeconfig of %s is for %s", when, team, config.Host)
		}
		config.Host, config.Timeout = f.front.address, patience
		if err := inApps(t.Context(), config, team); err != nil {
			t.Errorf("%s: the access to %s: %v", when, team, err)
		}
		if other := f.made[(i+1)%len(f.made)]; !apierrors.IsForbidden(inApps(t.Context(), config, other)) {
			t.Errorf("%s: the access to %s gets into %s", when, team, other)
		}
	}
}

// limitsHold has each server refuse each team another pod.
func (f *teams) limitsHold(t *testing.T, when string) {
	t.Helper()
	for _, s := range f.servers {
		for _, team := range f.made {
			err := oneMorePod(t.Context(), s.config, team)
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "pods") {
				t.Errorf("%s: %s gets another pod at %s: %v", when, team, s.name, err)
			}
		}
	}
	list, err := f.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	count := map[string]int{}
	for i := range list.Items {
		tenant, _ := space.SplitNamespace(list.Items[i].Namespace)
		count[tenant]++
	}
	for _, team := range f.made {
		if count[team] != theirPods {
			t.Errorf("%s: %s has %d pods", when, team, count[team])
		}
	}
	if n := len(slices.Collect(maps.Keys(count))); n != len(f.made) {
		t.Errorf("%s: those that have pods are %v", when, count)
	}
}

// oneMorePod makes a pod for a team, which is to be refused.
func oneMorePod(ctx context.Context, config *rest.Config, team string) error {
	client, err := kubernetes.NewForConfig(tenantapi.InSpace(config, team))
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Pods("apps").Create(ctx, pod("more"), metav1.CreateOptions{})
	return err
}
