package apiserver

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/datastore"
)

// TestEveryFlagOfAFileIsDecided: a flag of the next release of Kubernetes that names a file
// is looked at before it is passed through.
func TestEveryFlagOfAFileIsDecided(t *testing.T) {
	decided := namedFiles()
	// What is said of flags of the types that can name one.
	names := regexp.MustCompile(`(?i)\bfiles?\b|\bpath\b|director(y|ies)|socket|kubeconfig|\bbundle\b`)
	types := map[string]bool{"string": true, "stringArray": true, "stringSlice": true, "namedCertKey": true}
	others := map[string]string{
		"requestheader-allowed-names": "names, which are checked by the file of another flag",
	}
	all := map[string]bool{}
	flatten(options.NewServerRunOptions().Flags()).VisitAll(func(f *pflag.Flag) {
		all[f.Name] = true
		_, known := decided[f.Name]
		mayName := types[f.Value.Type()] && (names.MatchString(f.Usage) || names.MatchString(f.Name))
		if mayName && !known && others[f.Name] == "" {
			t.Errorf("--%s may name a file, and namedFiles does not say how it is read: %s", f.Name, f.Usage)
		}
	})
	for name, d := range decided {
		if !all[name] {
			t.Errorf("kube-apiserver has no flag --%s", name)
		}
		if (d.check == nil) == (d.unchecked == "") || (d.check == nil) != (d.want == "") {
			t.Errorf("--%s needs either a check with what would be right, or a reason for none", name)
		}
	}
	for name := range others {
		if !all[name] {
			t.Errorf("kube-apiserver has no flag --%s", name)
		}
	}
}

// plain are options without files of a4s: those of a first start are not there yet.
func plain(args ...string) Options {
	return Options{AdvertiseAddress: net.IPv4(127, 0, 0, 1), ServiceCIDR: "10.43.0.0/16",
		ServiceNodePortRange: "30000-32767", ClusterDomain: "cluster.local", Port: 6443, Args: args,
		Log: logrus.NewEntry(logrus.StandardLogger())}
}

func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const (
	authentication = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	issuer         = `jwt:
- issuer: {url: "https://issuer.example.com", audiences: [a]}
  claimMappings:
    username: {claim: sub, prefix: ""}
`
	tokens     = "secret-token-of-a-user,user,1,\"a,b\"\n"
	kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://webhook.example.com"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a}]
current-context: a
`
	admissionHead = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	podSecurity   = `- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline}
`
	egress = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections: [{name: cluster, connection: {proxyProtocol: Direct}}]
`
	encryption = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources: [{resources: [secrets], providers: [{identity: {}}]}]
`
	tracing  = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nsamplingRatePerMillion: 100\n"
	audit    = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"
	policies = `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"a"}}` + "\n"
)

// TestBrokenFilesAreRefused: a file that the API server would not start with is refused by
// the flag, the file and upstream's reason, before anything is there.
func TestBrokenFilesAreRefused(t *testing.T) {
	other := func(old, replaced string) string {
		return authentication + strings.Replace(issuer, old, replaced, 1)
	}
	for flag, files := range map[string]map[string]string{
		"authentication-config": {
			"": authentication + issuer, " ": authentication,
			"did not find expected":     "jwt: [",
			`unknown field "issuers"`:   authentication + "issuers: []\n",
			"URL scheme must be https":  other("https:", "http:"),
			"Duplicate value":           authentication + issuer + strings.TrimPrefix(issuer, "jwt:\n"),
			"compilation failed":        other(`claim: sub, prefix: ""`, "expression: 'claims.('"),
			"'Kind' is missing":         "hello: world\n",
			"empty config data":         "",
			"disallowed issuers":        other("issuer.example.com", "kubernetes.default.svc.cluster.local"),
			"RSA or ECDSA certificates": other("audiences:", "certificateAuthority: x, audiences:"),
			"egressSelectorType":        other("audiences:", "egressSelectorType: nowhere, audiences:"),
			"egress lookup":             other("audiences:", "egressSelectorType: cluster, audiences:"),
			"  ": other("audiences:",
				`discoveryURL: "https://b.example.com/.well-known/openid-configuration", audiences:`),
		},
		"token-auth-file": {"": tokens, "at least 3 columns": "token,user\n", "quote": "a,\"b,c\n"},
		"authentication-token-webhook-config-file": {"": kubeconfig, "yaml": "clusters: [",
			"no configuration": "{}"},
		"authorization-webhook-config-file": {"": kubeconfig, "yaml": "clusters: [",
			"no such file": strings.Replace(kubeconfig, "{server:", "{certificate-authority: /nowhere, server:", 1)},
		"audit-webhook-config-file": {"": kubeconfig, "yaml": "clusters: ["},
		"authorization-policy-file": {"": policies, "line 1": "nonsense\n"},
		"audit-policy-file": {"": audit, "level": strings.Replace(audit, "Metadata", "Everything", 1),
			"yaml": "rules: ["},
		"egress-selector-config-file": {"": egress, "did not find": "a: [",
			"connection.protocol": strings.Replace(egress, "Direct", "Mail", 1)},
		"encryption-provider-config": {"": encryption,
			`unknown field "providers"`: encryption + "providers: []\n",
			"secret": strings.Replace(encryption, "{identity: {}}",
				"{aescbc: {keys: [{name: a, secret: short}]}}", 1)},
		"tracing-config-file": {"": tracing, `unknown field "ratio"`: tracing + "ratio: 1\n",
			"samplingRatePerMillion": strings.Replace(tracing, "100", "-1", 1)},
		"admission-control-config-file": {"": admissionHead + podSecurity,
			"defaults.enforce":       admissionHead + strings.Replace(podSecurity, "baseline", "strict", 1),
			"no such file":           admissionHead + "- {name: PodSecurity, path: /nowhere}\n",
			"is a directory":         admissionHead + "- {name: PodSecurity, path: /}\n",
			"yaml":                   "plugins: [",
			`unknown field "plugin"`: strings.Replace(admissionHead, "plugins", "plugin", 1) + podSecurity},
		"client-ca-file": {"certificate": "hello\n"}, "requestheader-client-ca-file": {"certificate": "hello\n"},
		"etcd-cafile": {"certificate": "hello\n"}, "kubelet-certificate-authority": {"certificate": "hello\n"},
		"peer-ca-file": {"certificate": "hello\n"}, "tls-cert-file": {"certificate": "hello\n"},
		"etcd-certfile": {"certificate": "hello\n"}, "kubelet-client-certificate": {"certificate": "hello\n"},
		"proxy-client-cert-file": {"certificate": "hello\n"}, "tls-private-key-file": {"key": "hello\n"},
		"etcd-keyfile": {"key": "hello\n"}, "kubelet-client-key": {"key": "hello\n"},
		"proxy-client-key-file": {"key": "hello\n"}, "service-account-signing-key-file": {"key": "hello\n"},
		"service-account-key-file": {"key": "hello\n"},
	} {
		files["no such file or directory"] = "-"
		for want, content := range files {
			path := "/nowhere/file"
			if content != "-" {
				path = write(t, content)
			}
			err := Validate(plain(flag + "=" + path))
			if strings.TrimSpace(want) == "" {
				if err != nil {
					t.Errorf("%s of\n%s: %v", flag, content, err)
				}
				continue
			}
			var in *problem.Input
			if !errors.As(err, &in) || in.Source != argFlag || !strings.Contains(in.Value, path) || in.Want == "" ||
				!strings.Contains(in.Err.Error(), want) {
				t.Errorf("%s of\n%s: %v, want %q", flag, content, err, want)
			}
		}
	}
}

// TestPairsBelongTogether: a certificate of the user is read with the key of the user.
func TestPairsBelongTogether(t *testing.T) {
	files, err := pki.Ensure(filepath.Join(t.TempDir(), "tls"), pki.Options{SANs: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	server, other := files.ServingAPIServer, files.AuthProxy
	for cert, key := range map[string]string{
		"tls-cert-file": "tls-private-key-file", "etcd-certfile": "etcd-keyfile",
		"kubelet-client-certificate": "kubelet-client-key", "proxy-client-cert-file": "proxy-client-key-file",
	} {
		if err := Validate(plain(cert+"="+server.Cert, key+"="+server.Key)); err != nil {
			t.Errorf("%s: %v", cert, err)
		}
		if err := Validate(plain(cert+"="+server.Cert, key+"="+other.Key)); err == nil ||
			!strings.Contains(err.Error(), "private key does not match") {
			t.Errorf("%s with another key: %v", cert, err)
		}
	}
	if err := Validate(plain("tls-sni-cert-key=" + server.Cert + "," + server.Key)); err != nil {
		t.Error(err)
	}
	if err := Validate(plain("tls-sni-cert-key=" + server.Cert + "," + other.Key)); err == nil ||
		!strings.Contains(err.Error(), "private key does not match") {
		t.Errorf("names with another key: %v", err)
	}
}

// TestAuditPolicyOfA4s: the file of a4s' own flag is read as that of an argument is, and the
// one that a4s is about to write may be missing.
func TestAuditPolicyOfA4s(t *testing.T) {
	o := plain()
	o.Files.AuditLog = "-"
	o.Files.AuditPolicy = write(t, "rules: [")
	var in *problem.Input
	if err := Validate(o); !errors.As(err, &in) || in.Source != "--audit-policy-file" ||
		in.Value != o.Files.AuditPolicy {
		t.Errorf("%v", err)
	}
	o.Files.AuditPolicy = filepath.Join(t.TempDir(), "later")
	if err := Validate(o); err != nil {
		t.Error(err)
	}
}

// TestFailedStartLeavesThePort: a start that fails after the port was opened says the same
// the next time, and not that the address is in use.
func TestFailedStartLeavesThePort(t *testing.T) {
	dir := t.TempDir()
	f, err := pki.Ensure(filepath.Join(dir, "tls"), pki.Options{SANs: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := plain()
	o.BindAddress, o.Port = "127.0.0.1", free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	o.Datastore = datastore.Endpoint{URLs: []string{"http://127.0.0.1:1"}}
	o.Files = Files{ClientCA: f.ClientCA.Cert,
		ServingCert: f.ServingAPIServer.Cert, ServingKey: f.ServingAPIServer.Key,
		KubeletCA: f.ServerCA.Cert, KubeletClientCert: f.APIServerKubeletClient.Cert,
		KubeletKey: f.APIServerKubeletClient.Key, RequestHeaderCA: f.RequestHeaderCA.Cert,
		ProxyClientCert: f.AuthProxy.Cert, ProxyClientKey: f.AuthProxy.Key, ServiceAccountKey: f.ServiceAccountKey,
		CertDir: filepath.Join(dir, "certs")}
	broken := errors.New("broken on purpose")
	o.Seams.Access = func(informers.SharedInformerFactory, authorizer.Authorizer, authorizer.RuleResolver, bool) (
		authorizer.Authorizer, authorizer.RuleResolver, error) {
		if l, err := net.Listen("tcp", net.JoinHostPort(o.BindAddress, strconv.Itoa(o.Port))); err == nil {
			_ = l.Close()
			t.Error("the port is not open yet, so this test shows nothing")
		}
		return nil, nil, broken
	}
	for range 2 {
		err := run(t.Context(), o, func() { t.Error("it is ready") })
		if !errors.Is(err, broken) {
			t.Fatalf("%v, want %v", err, broken)
		}
	}
}

// TestIssuerCAIsRead: the file of the flags of an issuer.
func TestIssuerCAIsRead(t *testing.T) {
	args := []string{"oidc-issuer-url=https://issuer.example.com", "oidc-client-id=a"}
	if err := Validate(plain(append(args, "oidc-ca-file="+write(t, "hello\n"))...)); err == nil ||
		!strings.Contains(err.Error(), "oidc-ca-file=") {
		t.Errorf("no certificate: %v", err)
	}
	if err := Validate(plain(args...)); err != nil {
		t.Error(err)
	}
}

// TestAuthorizationFileIsRefused: RBAC in it would be upstream's, which asks the bindings of
// all spaces at once.
func TestAuthorizationFileIsRefused(t *testing.T) {
	var in *problem.Input
	if err := Validate(plain("authorization-config=/nowhere")); !errors.As(err, &in) || in.Source != argFlag {
		t.Errorf("%v", err)
	}
}

// TestPluginsThatDoNotStart: a plugin that is asked for is made with the configuration that it
// has, or without one, before anything is there.
func TestPluginsThatDoNotStart(t *testing.T) {
	const limits = `- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits: [{type: Namespace, qps: 50, burst: 100}]
`
	config := func(plugins string) string {
		return "admission-control-config-file=" + write(t, admissionHead+plugins)
	}
	for _, c := range []struct {
		args []string
		want string // of the error; "" is none
	}{
		{[]string{"enable-admission-plugins=EventRateLimit"}, "limits: Invalid value"},
		{[]string{"enable_admission_plugins=EventRateLimit"}, "limits: Invalid value"},
		{[]string{"admission-control=NamespaceLifecycle,EventRateLimit"}, "mutually exclusive"},
		{[]string{"enable-admission-plugins=EventRateLimit", config(podSecurity)}, "limits: Invalid value"},
		{[]string{"enable-admission-plugins=EventRateLimit", config(limits)}, ""},
		{[]string{"enable-admission-plugins=EventRateLimit",
			config(strings.Replace(limits, "qps: 50", "qps: 0", 1))}, "limits[0].qps"},
		{[]string{"enable-admission-plugins=ImagePolicyWebhook"}, "no config specified"},
		{[]string{"enable-admission-plugins=PodNodeSelector,PodTolerationRestriction,AlwaysPullImages,PodSecurity," +
			"ResourceQuota,ServiceAccount,ValidatingAdmissionWebhook,ExtendedResourceToleration"}, ""},
		{[]string{"enable-admission-plugins=NoSuchPlugin"}, `"NoSuchPlugin" is unknown`},
		{[]string{"disable-admission-plugins=NoSuchPlugin"}, `"NoSuchPlugin" is unknown`},
		{[]string{"disable-admission-plugins=DefaultStorageClass"}, ""},
	} {
		err := Validate(plain(c.args...))
		if c.want == "" {
			if err != nil {
				t.Errorf("%v: %v", c.args, err)
			}
			continue
		}
		var in *problem.Input
		if !errors.As(err, &in) || in.Source != argFlag || in.Want == "" ||
			!strings.Contains(in.Err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}
