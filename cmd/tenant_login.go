package cmd

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

// loginFlags say how users of a kubeconfig log in.
func loginFlags() []cli.Flag {
	const ofServer = "that of the tenant's own one, else of the only one that the server of this machine has"
	return []cli.Flag{
		toggle("oidc", "", "make one without a certificate, whose users log in with OpenID Connect"),
		text("oidc-issuer-url", "", "", "with --oidc: `URL` of the provider", ofServer),
		text("oidc-client-id", "", "", "with --oidc: `ID` of the cluster at the provider", ofServer),
		text("oidc-client-secret", "", "",
			"with --oidc: `SECRET` of a client that is not public; whoever has the file has it"),
		texts("oidc-extra-scope", "", "with --oidc: `SCOPE` to ask for besides openid; repeat it for more"),
	}
}

// readLogin is what loginFlags say, nil without --oidc.
func readLogin(c *call) (*tenantadmin.Login, error) {
	flags := []string{"oidc-issuer-url", "oidc-client-id", "oidc-client-secret", "oidc-extra-scope"}
	if !c.Bool("oidc") {
		for _, flag := range flags {
			if c.IsSet(flag) {
				return nil, &problem.Input{Source: "--" + flag, Value: shownFlag(c, flag),
					Err: errors.New("it says how users log in"), Want: "--oidc as well"}
			}
		}
		return nil, nil
	}
	for _, flag := range []string{"user", "group", "expires"} {
		if c.IsSet(flag) {
			return nil, &problem.Input{Source: "--" + flag, Err: errors.New("with --oidc the provider says who " +
				"somebody is, and for how long"), Want: "one of the two"}
		}
	}
	l := &tenantadmin.Login{Issuer: c.String("oidc-issuer-url"), Client: c.String("oidc-client-id"),
		Secret: c.String("oidc-client-secret"), Scopes: c.StringSlice("oidc-extra-scope")}
	if c.IsSet("oidc-issuer-url") && c.IsSet("oidc-client-id") {
		return l, checkLogin(l)
	}
	return l, nil
}

// completeLogin fills in what is not given by flags: of the tenant's own provider, else of that of the server.
func completeLogin(c *call, l *tenantadmin.Login, own *tenantadmin.Provider) error {
	if own != nil && (l.Issuer == own.URL || !c.IsSet("oidc-issuer-url")) {
		l.Issuer, l.CA = own.URL, own.CertificateAuthority
		if !c.IsSet("oidc-client-id") {
			if n := len(own.Audiences); n != 1 {
				return &problem.Input{Source: "--oidc-client-id", Want: "one of " + strings.Join(own.Audiences, ", "),
					Err: fmt.Errorf("the provider of the tenant has %d audiences, not one", n)}
			}
			l.Client = own.Audiences[0]
		}
		return checkLogin(l)
	}
	if c.IsSet("oidc-issuer-url") && c.IsSet("oidc-client-id") {
		return nil
	}
	if err := fromServer(c, l); err != nil {
		return err
	}
	return checkLogin(l)
}

// shownFlag is the value of a flag in messages.
func shownFlag(c *call, flag string) string {
	switch flag {
	case "oidc-client-secret":
		return ""
	case "oidc-extra-scope":
		return strings.Join(c.StringSlice(flag), ", ")
	}
	return c.String(flag)
}

// checkLogin finds what no provider can have, or what would be read as something else.
func checkLogin(l *tenantadmin.Login) error {
	u, err := url.Parse(l.Issuer)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" ||
		u.User != nil {
		return &problem.Input{Source: "--oidc-issuer-url", Value: l.Issuer,
			Want: "the URL of the provider as its tokens have it, such as https://login.example.com"}
	}
	for flag, values := range map[string][]string{"--oidc-client-id": {l.Client}, "--oidc-extra-scope": l.Scopes} {
		for _, value := range values {
			if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
				return &problem.Input{Source: flag, Value: value, Want: "a name without spaces"}
			}
		}
	}
	return nil
}

// fromServer fills in what is not given by flags: the issuer and the audience of the only provider that the
// server of this machine has. That of another machine is not known, so there is no default for it.
func fromServer(c *call, l *tenantadmin.Login) error {
	missing := func(err error) error {
		flag := "--oidc-issuer-url"
		if c.IsSet("oidc-issuer-url") {
			flag = "--oidc-client-id"
		}
		return &problem.Input{Source: flag, Err: err, Want: "--oidc-issuer-url and --oidc-client-id, as the " +
			"authentication configuration of the server has them"}
	}
	if c.String("kubeconfig") != "" || c.String(formerKubeconfig) != "" ||
		os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return missing(errors.New("the cluster of another kubeconfig may have other providers than this machine"))
	}
	local, err := config.LoadLocal(source(nil))
	if err != nil {
		return missing(err)
	}
	issuer, client, err := tenantadmin.OnlyProvider(local.KubeAPIServerArgs)
	if err != nil {
		return missing(err)
	}
	switch {
	case c.IsSet("oidc-issuer-url") && l.Issuer != issuer:
		return missing(fmt.Errorf("the provider of the server is %s", issuer))
	case !c.IsSet("oidc-client-id"):
		l.Client = client
	}
	l.Issuer = issuer
	return nil
}

// writeLogin writes the kubeconfig of users who log in.
func writeLogin(c *call, admin *tenantadmin.Admin, who *access, l *tenantadmin.Login, file string) error {
	server, err := addressFor(c.ctx, admin, who)
	if err != nil {
		return tenantError(c.ctx, admin, who.Tenant, err)
	}
	data, err := admin.LoginKubeconfig(who.Tenant, l, server)
	if err != nil {
		return err
	}
	if file == toStdout {
		_, err = c.out.Write(data)
	} else if err = tenantadmin.WriteKubeconfig(file, data); err == nil {
		_, err = problem.Show(c.out, "kubeconfig of tenant %s for users who log in at %s is in %s\n", who.Tenant,
			l.Issuer, file)
	}
	if err == nil && l.Secret != "" {
		_, err = problem.Show(c.errOut, "a4s: note: the secret of the client is in the kubeconfig, and whoever "+
			"gets it has it\n")
	}
	if err != nil {
		return err
	}
	return noteAddress(c.errOut, server, who)
}
