package tenantadmin

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"

	clientauthentication "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/internal/upstreamflags"
)

// authenticationConfig is the argument of the API server whose file names the providers.
const authenticationConfig = "authentication-config"

// LoginUser is who a kubeconfig of LoginKubeconfig is for: whoever logs in.
const LoginUser = "oidc"

// loginHint is what kubectl says where the plugin is missing.
const loginHint = "The login needs the plugin oidc-login of kubectl: kubectl krew install oidc-login, or see " +
	"https://github.com/int128/kubelogin"

// Login is how users get a token of OpenID Connect.
type Login struct {
	// Issuer is the URL of the provider, Client the ID by which it knows the cluster.
	Issuer, Client string
	// Secret is that of the client, "" for a public one, as those of programs on people's
	// machines are.
	Secret string
	// CA verifies the provider, in PEM, "" if its certificate is public.
	CA string
	// Scopes are asked for besides openid.
	Scopes []string
}

// LoginKubeconfig is a kubeconfig for the space of a tenant whose users log in by the plugin oidc-login
// of kubectl. It has nothing secret in it but the secret of the client, if there is one. An empty server
// means the one that the Admin talks to.
func (a *Admin) LoginKubeconfig(tenant string, l *Login, server string) ([]byte, error) {
	args := []string{"oidc-login", "get-token", "--oidc-issuer-url=" + l.Issuer, "--oidc-client-id=" + l.Client}
	if l.Secret != "" {
		args = append(args, "--oidc-client-secret="+l.Secret)
	}
	if l.CA != "" {
		args = append(args, "--certificate-authority-data="+base64.StdEncoding.EncodeToString([]byte(l.CA)))
	}
	for _, scope := range l.Scopes {
		args = append(args, "--oidc-extra-scope="+scope)
	}
	auth := api.NewAuthInfo()
	auth.Exec = &api.ExecConfig{
		APIVersion: clientauthentication.SchemeGroupVersion.String(), Command: "kubectl", Args: args,
		// It opens a browser, and may ask at the terminal where there is none.
		InteractiveMode: api.IfAvailableExecInteractiveMode, InstallHint: loginHint,
	}
	return kubeconfigOf(a, tenant, LoginUser, auth, server)
}

// Provider is where users of a tenant log in.
type Provider = tenantapi.TenantIssuer

// OwnProvider is the tenant's own one, nil if it has none.
func OwnProvider(t *tenantapi.Tenant) *Provider {
	if t.Spec.Authentication == nil {
		return nil
	}
	return &t.Spec.Authentication.Issuer
}

// OnlyProvider is the issuer of the authentication configuration that is among the arguments of the API
// server, and its audience.
func OnlyProvider(args []string) (issuer, audience string, err error) {
	path := ""
	for _, arg := range args {
		if upstreamflags.Name(arg) == authenticationConfig {
			_, path, _ = strings.Cut(arg, "=")
		}
	}
	if path == "" {
		return "", "", fmt.Errorf("the server of this machine has no kube-apiserver-arg %s=FILE", authenticationConfig)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", path, problem.WithoutPath(err))
	}
	var providers struct {
		JWT []struct {
			Issuer struct {
				URL       string   `json:"url"`
				Audiences []string `json:"audiences"`
			} `json:"issuer"`
		} `json:"jwt"`
	}
	if err := yaml.Unmarshal(data, &providers); err != nil {
		return "", "", fmt.Errorf("%s: %w", path, err)
	}
	if n := len(providers.JWT); n != 1 {
		return "", "", fmt.Errorf("%s has %d issuers, not one", path, n)
	}
	of := providers.JWT[0].Issuer
	if n := len(of.Audiences); n != 1 {
		return "", "", fmt.Errorf("the issuer in %s has %d audiences, not one", path, n)
	}
	return of.URL, of.Audiences[0], nil
}
