package cmd

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/space"
)

func TestKubectlTakesTenant(t *testing.T) {
	for _, tc := range []struct {
		env, args    string
		tenant, rest string
		is           error
	}{
		{args: "get pods", rest: "get pods"},
		{args: "--tenant t1 get pods", tenant: "t1", rest: "get pods"},
		{args: "get --tenant=t1 pods -A", tenant: "t1", rest: "get pods -A"},
		{args: "exec p --tenant t1 -- x --tenant t2", tenant: "t1", rest: "exec p -- x --tenant t2"},
		{env: "t2", args: "get pods", tenant: "t2", rest: "get pods"},
		{env: "t2", args: "--tenant t1 get pods", tenant: "t1", rest: "get pods"},
		{args: "--tenant system get pods", tenant: "system", rest: "get pods"},
		{args: "--tenant all get pods", tenant: "all", rest: "get pods"},
		{args: "get pods --tenant", is: config.ErrNoValue},
		{args: "get pods --tenant -- x", is: config.ErrNoValue},
		{args: "get pods --tenant=", is: config.ErrNoValue},
		{args: "get pods --tenant A.b", is: space.ErrInvalid},
		{env: "A.b", args: "get pods", is: space.ErrInvalid},
	} {
		noConfig(t)
		t.Setenv("A4S_TENANT", tc.env)
		c, _, _, err := run(t, append([]string{"kubectl"}, strings.Fields(tc.args)...)...)
		var in *problem.Input
		if !errors.Is(err, tc.is) || tc.is != nil && !errors.As(err, &in) {
			t.Errorf("%q, A4S_TENANT=%q: %v", tc.args, tc.env, err)
		}
		if c.tenant != tc.tenant || strings.Join(c.args, " ") != tc.rest {
			t.Errorf("%q, A4S_TENANT=%q: tenant %q, arguments %q", tc.args, tc.env, c.tenant, c.args)
		}
	}
}

// kubectlGet does what kubectl does with the configuration that it found.
func kubectlGet(t *testing.T, k *KubectlRun, loader clientcmd.ClientConfig, server string) (failed, err error) {
	t.Helper()
	cfg, err := loader.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	wrapped := k.Wrap(cfg, loader, server, func(err error) { failed = err; told++ })
	client, err := rest.HTTPClientFor(wrapped)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // kubectl is stubborn
		var resp *http.Response
		resp, err = client.Get(wrapped.Host + "/api/v1/namespaces/default")
		if err == nil {
			err = resp.Body.Close()
		}
	}
	if told > 1 {
		t.Errorf("told %d times", told)
	}
	return failed, err
}

func loaderOf(files ...string) clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{
		Precedence:          files,
		DefaultClientConfig: &clientcmd.DefaultClientConfig,
	},
		&clientcmd.ConfigOverrides{ClusterDefaults: clientcmd.ClusterDefaults})
}

func TestKubectlInATenant(t *testing.T) {
	f := newFakeTenants(t, "team-a")
	const asked = "GET /tenants/team-a/api/v1/namespaces/default"
	if failed, err := kubectlGet(t, &KubectlRun{Tenant: "team-a"}, loaderOf(f.kubeconfig), ""); failed != nil ||
		err != nil || !slices.Contains(f.requested, asked) {
		t.Errorf("%v, %v, requested %q", failed, err, f.requested)
	}
	// The kubeconfig of a tenant's user knows the space already, and they may
	// not look at tenants.
	writeKubeconfig(t, f.kubeconfig+".t", f.url+"/tenants/team-a", caOf(t, f.kubeconfig))
	f.requested = nil
	if failed, err := kubectlGet(t, &KubectlRun{Tenant: "team-a"}, loaderOf(f.kubeconfig+".t"), ""); failed != nil ||
		err != nil || !slices.Equal(f.requested, []string{asked, asked}) {
		t.Errorf("with a tenant's kubeconfig: %v, %v, requested %q", failed, err, f.requested)
	}
	var in *problem.Input
	if failed, err := kubectlGet(t, &KubectlRun{Tenant: "team-b"}, loaderOf(f.kubeconfig+".t"),
		""); !errors.As(failed, &in) || err == nil || !strings.Contains(failed.Error(), "team-a only") {
		t.Errorf("with another tenant's kubeconfig: %v, %v", failed, err)
	}
	f.requested = nil
	failed, err := kubectlGet(t, &KubectlRun{Tenant: "taem-a"}, loaderOf(f.kubeconfig), "")
	if !errors.Is(failed, errUnknownTenant) || !errors.Is(err, errUnknownTenant) ||
		!strings.Contains(failed.Error(), `"team-a"`) {
		t.Errorf("unknown tenant: %v, %v", failed, err)
	}
	if slices.ContainsFunc(f.requested, func(r string) bool { return strings.Contains(r, "/tenants/taem-a/") }) {
		t.Errorf("unknown tenant, requested %q", f.requested)
	}
	f.forbidden = true
	if failed, err := kubectlGet(t, &KubectlRun{Tenant: "taem-a"}, loaderOf(f.kubeconfig), ""); failed != nil ||
		err != nil {
		t.Errorf("who may not look at tenants: %v, %v", failed, err)
	}
}

// TestKubectlOfASystemUser: the kubeconfig of a user of the system for the space of
// the system is good for all.
func TestKubectlOfASystemUser(t *testing.T) {
	f := newFakeTenants(t, "team-a")
	path := f.kubeconfig + ".s"
	writeKubeconfig(t, path, f.url+"/tenants/system", caOf(t, f.kubeconfig))
	object := Named{Source: "f: metadata.tenant", Tenant: "team-a"}
	for _, tc := range []struct {
		tenant  string
		objects []Named
		want    string
	}{
		{want: "system"},
		{tenant: "team-a", want: "team-a"},
		{tenant: "all", want: "all"},
		{objects: []Named{object}, want: "team-a"},
		{tenant: "system", objects: []Named{object}, want: "system"},
	} {
		f.requested = nil
		k := &KubectlRun{Tenant: tc.tenant, Source: "--tenant"}
		k.Name(tc.objects...)
		failed, err := kubectlGet(t, k, loaderOf(path), "")
		if want := "GET /tenants/" + tc.want + "/api/v1/namespaces/default"; failed != nil || err != nil ||
			!slices.Contains(f.requested, want) {
			t.Errorf("%+v: %v, %v, requested %q", tc, failed, err, f.requested)
		}
	}
	failed, err := kubectlGet(t, &KubectlRun{Tenant: "taem-a", Source: "--tenant"}, loaderOf(path), "")
	if !errors.Is(failed, errUnknownTenant) || err == nil {
		t.Errorf("unknown tenant: %v, %v", failed, err)
	}
}

// TestKubectlStaysInTheSpace: proxy and --raw ask for paths of the server.
func TestKubectlStaysInTheSpace(t *testing.T) {
	noConfig(t)
	for _, tc := range []struct{ host, tenant, path, want string }{
		{"https://h", "t1", "/api/v1/pods", "/tenants/t1/api/v1/pods"},
		{"https://h", "t1", "/tenants/t1/api/v1/pods", "/tenants/t1/api/v1/pods"},
		{"https://h", "t1", "/tenants/t1", "/tenants/t1"},
		{"https://h", "t1", "/tenants/t11/api", "/tenants/t1/tenants/t11/api"},
		{"https://h", "t1", "/tenants/t2/api", "/tenants/t1/tenants/t2/api"},
		{"https://h/tenants/t1", "", "/api/v1/pods", "/tenants/t1/api/v1/pods"},
		{"https://h/behind/tenants/t1", "", "/api/v1/a%2Fb", "/behind/tenants/t1/api/v1/a%2Fb"},
		{"https://h/behind", "t1", "/", "/behind/tenants/t1/"},
		{"https://h", "", "/api/v1/pods", "/api/v1/pods"},
		{"https://h/behind", "", "/api/v1/pods", "/api/v1/pods"},
	} {
		asked := ""
		cfg := &rest.Config{Host: tc.host, Transport: answers(func(r *http.Request) *http.Response {
			if asked = r.URL.EscapedPath(); r.URL.Query().Get("q") != "x" {
				asked += " without the query"
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}
		})}
		out := (&KubectlRun{Tenant: tc.tenant, Source: "--tenant"}).Wrap(cfg, loaderOf("/nonexistent"), "",
			func(err error) {
				t.Error(err)
			})
		// As rest.RESTClientFor and kubectl proxy make theirs.
		client, err := rest.HTTPClientFor(out)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Get("https://h" + tc.path + "?q=x")
		if err != nil || resp.Body.Close() != nil || asked != tc.want {
			t.Errorf("%+v: asked for %s, %v", tc, asked, err)
		}
	}
}

func caOf(t *testing.T, kubeconfig string) []byte {
	t.Helper()
	cfg, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Clusters["c"].CertificateAuthorityData
}

func emptyFile(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKubectlWithoutKubeconfig(t *testing.T) {
	noConfig(t)
	t.Setenv("A4S_KUBECONFIG_OUTPUT", "/nonexistent/a4s.yaml")
	t.Setenv("KUBERNETES_MASTER", "")
	dir := t.TempDir()
	missing := filepath.Join(dir, "config")
	for _, tenant := range []string{"", "t1"} {
		var in *problem.Input
		failed, _ := kubectlGet(t, &KubectlRun{Tenant: tenant}, loaderOf(missing), "")
		if !errors.As(failed, &in) || !strings.Contains(failed.Error(), missing) ||
			!strings.Contains(failed.Error(), "/nonexistent/a4s.yaml") {
			t.Errorf("tenant %q: %v", tenant, failed)
		}
	}
	// The server's is there, for others.
	t.Setenv("A4S_KUBECONFIG_OUTPUT", filepath.Join(emptyFile(t, filepath.Join(dir, "file")), "below"))
	var in *problem.Input
	if failed, _ := kubectlGet(t, &KubectlRun{}, loaderOf(missing), ""); !errors.As(failed, &in) ||
		!strings.Contains(in.Want, "--write-kubeconfig-mode") || !strings.Contains(in.Want, missing) {
		t.Errorf("a kubeconfig that cannot be read: %v", failed)
	}
	t.Setenv("A4S_KUBECONFIG_OUTPUT", "/nonexistent/a4s.yaml")
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://192.0.2.1"}
	if err := clientcmd.WriteToFile(*cfg, missing); err != nil {
		t.Fatal(err)
	}
	if failed, _ := kubectlGet(t, &KubectlRun{}, loaderOf(missing), ""); failed == nil ||
		!strings.Contains(failed.Error(), "no current context") {
		t.Errorf("no current context: %v", failed)
	}
	// Who names the old default server gets it.
	if failed, _ := kubectlGet(t, &KubectlRun{}, loaderOf(missing), "http://localhost:8080"); failed != nil {
		t.Errorf("--server: %v", failed)
	}
}

func TestKubectlPluginsAreNotMisled(t *testing.T) {
	if err := (&KubectlRun{}).CheckPlugin("/bin/kubectl-x"); err != nil {
		t.Error(err)
	}
	if err := (&KubectlRun{Tenant: "t1"}).CheckPlugin("/bin/kubectl-x"); err == nil ||
		!strings.Contains(err.Error(), "a4s tenant kubeconfig t1") {
		t.Error(err)
	}
}
