package cmd

import (
	"errors"
	"net/http"
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

func caOf(t *testing.T, kubeconfig string) []byte {
	t.Helper()
	cfg, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Clusters["c"].CertificateAuthorityData
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
