package cmd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestTenantKubeconfigWithLogin: what is written is read by client-go, logs in as told, and has no
// certificate.
func TestTenantKubeconfigWithLogin(t *testing.T) {
	f := newFakeTenants(t, "team-a")
	file := filepath.Join(t.TempDir(), "k.yaml")
	const issuer = "https://login.example.com/realms/a4s"
	for _, c := range []struct{ more, args []string }{
		{nil, nil},
		{[]string{"--oidc-extra-scope", "email", "--oidc-extra-scope=groups"},
			[]string{"--oidc-extra-scope=email", "--oidc-extra-scope=groups"}},
		{[]string{"--oidc-client-secret", "hush"}, []string{"--oidc-client-secret=hush"}},
	} {
		out, stderr, err := f.run(append([]string{"kubeconfig", "team-a", "--oidc", "--oidc-issuer-url", issuer,
			"--oidc-client-id", "a4s", "--server", "https://a4s.example.com:6443", "-o", file}, c.more...)...)
		if err != nil || !strings.Contains(out, file) || strings.Contains(out+stderr, "hush") ||
			strings.Contains(stderr, "secret") != slices.Contains(c.args, "--oidc-client-secret=hush") {
			t.Fatalf("%v: %v\n%s%s", c.more, err, out, stderr)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rc, err := clientcmd.RESTConfigFromKubeConfig(data)
		if err != nil {
			t.Fatalf("client-go: %v\n%s", err, data)
		}
		want := append([]string{"oidc-login", "get-token", "--oidc-issuer-url=" + issuer, "--oidc-client-id=a4s"},
			c.args...)
		if rc.Host != "https://a4s.example.com:6443/tenants/team-a" || len(rc.CAData) == 0 || rc.ExecProvider == nil ||
			rc.ExecProvider.Command != "kubectl" || !slices.Equal(rc.ExecProvider.Args, want) ||
			rc.ExecProvider.APIVersion != "client.authentication.k8s.io/v1" ||
			rc.ExecProvider.InteractiveMode != "IfAvailable" ||
			!strings.Contains(rc.ExecProvider.InstallHint, "oidc-login") {
			t.Errorf("%s\n%+v", rc.Host, rc.ExecProvider)
		}
		if len(rc.CertData)+len(rc.KeyData)+len(rc.BearerToken)+len(rc.Password) > 0 || len(f.subjects) > 0 {
			t.Errorf("it has credentials:\n%s", data)
		}
		if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
	if _, _, err := f.run("kubeconfig", "nobody", "--oidc", "--oidc-issuer-url", issuer,
		"--oidc-client-id=a4s"); err == nil || !strings.Contains(err.Error(), "no such tenant") {
		t.Errorf("of no tenant: %v", err)
	}
	out, stderr, err := f.run("kubeconfig", "team-a", "--oidc", "--oidc-issuer-url", issuer, "--oidc-client-id=a4s")
	if cfg, e := clientcmd.Load([]byte(out)); err != nil || e != nil || cfg.CurrentContext != "oidc@team-a" ||
		!strings.Contains(stderr, "this machine only") {
		t.Errorf("to standard output: %v, %v\n%s%s", err, e, out, stderr)
	}
}

func TestTenantLoginMistakes(t *testing.T) {
	f := newFakeTenants(t, "team-a")
	const issuer, client = "--oidc-issuer-url=https://login.example.com", "--oidc-client-id=a4s"
	for args, want := range map[string]string{
		issuer:                     "--oidc as well",
		client:                     "--oidc as well",
		"--oidc-client-secret=x":   "--oidc as well",
		"--oidc-extra-scope=email": "--oidc as well",
		"--oidc " + issuer + " " + client + " --user bob":                     "the provider says who somebody is",
		"--oidc " + issuer + " " + client + " --group dev":                    "the provider says who somebody is",
		"--oidc " + issuer + " " + client + " --expires 1h":                   "the provider says who somebody is",
		"--oidc " + client + " --oidc-issuer-url=http://login.example.com":    "the URL of the provider",
		"--oidc " + client + " --oidc-issuer-url=https://u:p@example.com":     "the URL of the provider",
		"--oidc " + client + " --oidc-issuer-url=https://login.example.com?x": "the URL of the provider",
		"--oidc " + client + " --oidc-issuer-url=":                            "the URL of the provider",
		"--oidc " + issuer + " --oidc-client-id=":                             "a name without spaces",
		"--oidc " + issuer + " " + client + " --oidc-extra-scope=":            "a name without spaces",
		"--oidc":           "the cluster of another kubeconfig may have other providers",
		"--oidc " + issuer: "the cluster of another kubeconfig may have other providers",
	} {
		_, _, err := f.run(append([]string{"kubeconfig", "team-a"}, strings.Fields(args)...)...)
		var in *problem.Input
		if !errors.As(err, &in) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	_, _, err := f.run("kubeconfig", "team-a", "--oidc-client-secret=hush")
	if err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("the secret is shown: %v", err)
	}
}

// TestTenantLoginOfTheServer: the only provider of the server of this machine is the default.
func TestTenantLoginOfTheServer(t *testing.T) {
	f := newFakeTenants(t, "team-a")
	dir := t.TempDir()
	settings, providers := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "authentication.yaml")
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("A4S_CONFIG_FILE", settings)
	const argument = "kube-apiserver-arg:\n- authentication_config="
	const one = "- issuer:\n    url: https://login.example.com\n    audiences: [a4s]\n"
	for what, c := range map[string]struct {
		settings, providers, flags string
		args, want                 string
	}{
		"one": {argument + providers, "jwt:\n" + one, "", "https://login.example.com a4s", ""},
		"another client": {argument + providers, "jwt:\n" + one, "--oidc-client-id=x",
			"https://login.example.com x", ""},
		"another issuer": {argument + providers, "jwt:\n" + one, "--oidc-issuer-url=https://other.example.com", "",
			"the provider of the server is https://login.example.com"},
		"the same issuer": {argument + providers, "jwt:\n" + one, "--oidc-issuer-url=https://login.example.com",
			"https://login.example.com a4s", ""},
		"both by flags": {"", "", "--oidc-issuer-url=https://other.example.com --oidc-client-id=y",
			"https://other.example.com y", ""},
		"two":  {argument + providers, "jwt:\n" + one + one, "", "", "has 2 issuers, not one"},
		"none": {argument + providers, "{}", "", "", "has 0 issuers, not one"},
		"two audiences": {argument + providers, "jwt:\n- issuer: {url: x, audiences: [a, b]}", "", "",
			"has 2 audiences, not one"},
		"no YAML":     {argument + providers, "jwt: [", "", "", providers},
		"no file":     {argument + providers + ".none", "", "", "", "no such file"},
		"no argument": {"", "jwt:\n" + one, "", "", "no kube-apiserver-arg authentication-config=FILE"},
	} {
		write(settings, "write-kubeconfig: "+f.kubeconfig+"\n"+c.settings+"\n")
		write(providers, c.providers)
		_, out, _, err := run(t, append([]string{"tenant", "kubeconfig", "team-a", "--oidc"},
			strings.Fields(c.flags)...)...)
		if c.want != "" {
			var in *problem.Input
			if !errors.As(err, &in) || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "--oidc-client-id") {
				t.Errorf("%s: %v, want %q", what, err, c.want)
			}
			continue
		}
		rc, e := clientcmd.RESTConfigFromKubeConfig([]byte(out))
		if err != nil || e != nil {
			t.Errorf("%s: %v, %v\n%s", what, err, e, out)
			continue
		}
		issuer, client, _ := strings.Cut(c.args, " ")
		if args := rc.ExecProvider.Args; !slices.Equal(args[2:], []string{"--oidc-issuer-url=" + issuer,
			"--oidc-client-id=" + client}) {
			t.Errorf("%s: %q", what, args)
		}
	}
}

// TestTenantLoginOfItsOwn: the tenant's own provider is the default, with its CA.
func TestTenantLoginOfItsOwn(t *testing.T) {
	f := newFakeTenants(t, "team-a", "team-b")
	const own = "https://login.team-a.example.com"
	set := func(audiences ...string) {
		f.tenants["team-a"].Spec.Authentication = &tenantapi.TenantAuthentication{Issuer: tenantapi.TenantIssuer{
			URL: own, Audiences: audiences, CertificateAuthority: "pem"}}
	}
	set("cluster")
	for flags, want := range map[string][]string{
		"": {"--oidc-issuer-url=" + own, "--oidc-client-id=cluster", "--certificate-authority-data=cGVt"},
		"--oidc-client-id=x": {"--oidc-issuer-url=" + own, "--oidc-client-id=x",
			"--certificate-authority-data=cGVt"},
		"--oidc-issuer-url=" + own: {"--oidc-issuer-url=" + own, "--oidc-client-id=cluster",
			"--certificate-authority-data=cGVt"},
		"--oidc-client-id=x --oidc-issuer-url=https://login.example.com": {
			"--oidc-issuer-url=https://login.example.com", "--oidc-client-id=x"},
	} {
		out, _, err := f.run(append([]string{"kubeconfig", "team-a", "--oidc"}, strings.Fields(flags)...)...)
		rc, e := clientcmd.RESTConfigFromKubeConfig([]byte(out))
		if err != nil || e != nil {
			t.Fatalf("%s: %v, %v\n%s", flags, err, e, out)
		}
		if args := rc.ExecProvider.Args; !slices.Equal(args[2:], want) {
			t.Errorf("%s: %q", flags, args)
		}
	}
	set("a", "b")
	for args, want := range map[string]string{
		"team-a --oidc": "has 2 audiences, not one",
		"team-b --oidc": "the cluster of another kubeconfig may have other providers",
		"team-a --oidc --oidc-issuer-url=https://login.example.com": "the cluster of another kubeconfig may have " +
			"other providers",
	} {
		var in *problem.Input
		_, _, err := f.run(append([]string{"kubeconfig"}, strings.Fields(args)...)...)
		if !errors.As(err, &in) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "--oidc-client-id") {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
