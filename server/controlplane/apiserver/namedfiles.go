package apiserver

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/upstreamflags"
)

// namedFile is what is done about the files that a flag of kube-apiserver names before
// anything listens.
type namedFile struct {
	// check reads them as the API server will, by upstream's own functions, and returns why
	// it would not start with them.
	check func(*reading) error
	// want says what would be right.
	want string
	// unchecked says why there is no check.
	unchecked string
}

// reading is one look at the files of a configuration.
type reading struct {
	*options.ServerRunOptions
	// given has the flags whose values are the user's: the others name files of a4s, which
	// may not be there yet.
	given map[string]bool
	// over has ended: what upstream starts with it looks at nothing and ends at once.
	over context.Context
}

// namedFiles are all flags that name files, and those of what files configure, by their names.
func namedFiles() map[string]namedFile {
	const kubeconfig, ca = "a kubeconfig with the address of the webhook", "a file of PEM certificates"
	const plugins = "plugins of kube-apiserver, with an admission-control-config-file for those that need one"
	const cert, key = "a PEM certificate that belongs to its key", "a PEM key that belongs to its certificate"
	return map[string]namedFile{
		"admission-control-config-file": {check: readAdmission,
			want: "an AdmissionConfiguration with configurations that its plugins take"},
		// These name no file, but plugins that may need one.
		"enable-admission-plugins":  {check: readPlugins, want: plugins},
		"disable-admission-plugins": {check: readPlugins, want: plugins},
		"admission-control":         {check: readPlugins, want: plugins},

		"audit-policy-file":         {check: readAuditPolicy, want: "an audit Policy"},
		"audit-webhook-config-file": {check: readAuditWebhook, want: kubeconfig},
		"audit-log-path":            {check: readAuditLog, want: "a file that is there or can be made, or -"},
		"authentication-config":     {check: readAuthentication, want: "an AuthenticationConfiguration"},
		"oidc-ca-file":              {check: readIssuer, want: ca},
		"token-auth-file":           {check: readTokens, want: "lines of token, user, uid, groups, tenant"},

		"authentication-token-webhook-config-file": {check: readTokenWebhook, want: kubeconfig},

		"authorization-policy-file":         {check: readPolicies, want: "a line of JSON for each Policy"},
		"authorization-webhook-config-file": {check: readAccessWebhook, want: kubeconfig},
		"egress-selector-config-file":       {check: readEgress, want: "an EgressSelectorConfiguration"},
		"encryption-provider-config":        {check: readEncryption, want: "an EncryptionConfiguration"},
		"tracing-config-file":               {check: readTracing, want: "a TracingConfiguration"},

		"client-ca-file": {want: ca,
			check: func(r *reading) error { return readCA(r.Authentication.ClientCert.ClientCA) }},
		"requestheader-client-ca-file": {want: ca,
			check: func(r *reading) error { return readCA(r.Authentication.RequestHeader.ClientCAFile) }},
		"etcd-cafile": {want: ca,
			check: func(r *reading) error { return readCA(r.Etcd.StorageConfig.Transport.TrustedCAFile) }},
		"kubelet-certificate-authority": {want: ca,
			check: func(r *reading) error { return readCA(r.KubeletConfig.TLSClientConfig.CAFile) }},
		"peer-ca-file": {want: ca, check: func(r *reading) error { return readCA(r.PeerCAFile) }},
		"etcd-certfile": {want: cert, check: func(r *reading) error {
			return r.pair("etcd-certfile", r.Etcd.StorageConfig.Transport.CertFile,
				"etcd-keyfile", r.Etcd.StorageConfig.Transport.KeyFile)
		}},
		"etcd-keyfile": {want: key,
			check: func(r *reading) error { return readKey(r.Etcd.StorageConfig.Transport.KeyFile) }},
		"kubelet-client-certificate": {want: cert, check: func(r *reading) error {
			return r.pair("kubelet-client-certificate", r.KubeletConfig.TLSClientConfig.CertFile,
				"kubelet-client-key", r.KubeletConfig.TLSClientConfig.KeyFile)
		}},
		"kubelet-client-key": {want: key,
			check: func(r *reading) error { return readKey(r.KubeletConfig.TLSClientConfig.KeyFile) }},
		"proxy-client-cert-file": {want: cert, check: func(r *reading) error {
			return r.pair("proxy-client-cert-file", r.ProxyClientCertFile,
				"proxy-client-key-file", r.ProxyClientKeyFile)
		}},
		"proxy-client-key-file": {want: key,
			check: func(r *reading) error { return readKey(r.ProxyClientKeyFile) }},
		"tls-cert-file": {want: cert, check: func(r *reading) error {
			own := r.SecureServing.ServerCert.CertKey
			return r.pair("tls-cert-file", own.CertFile, "tls-private-key-file", own.KeyFile)
		}},
		"tls-private-key-file": {want: key,
			check: func(r *reading) error { return readKey(r.SecureServing.ServerCert.CertKey.KeyFile) }},
		"tls-sni-cert-key": {want: "CERT,KEY, each a PEM file that belongs to the other", check: readNamedPairs},
		"service-account-key-file": {want: "a file of PEM keys",
			check: func(r *reading) error { return readPublicKeys(r.Authentication.ServiceAccounts.KeyFiles) }},
		"service-account-signing-key-file": {want: "a PEM key",
			check: func(r *reading) error { return readKey(r.ServiceAccountSigningKeyFile) }},

		"authorization-config":             {unchecked: "parse refuses it"},
		"service-account-signing-endpoint": {unchecked: "completing the options connects to it"},
		"allow-metric-labels-manifest":     {unchecked: "upstream logs what is wrong and goes on without it"},
		"debug-socket-path":                {unchecked: "upstream logs what is wrong and goes on without it"},
		"cert-dir":                         {unchecked: "nothing is read from it: the serving certificate is named"},
	}
}

// checkFiles reads the files that the user's arguments name, and returns a problem of the
// first flag, by name, with which the API server would not start.
func checkFiles(o Options, s *options.ServerRunOptions) error {
	r := &reading{ServerRunOptions: s, given: map[string]bool{}}
	var end context.CancelFunc
	r.over, end = context.WithCancel(context.Background())
	end()
	values := map[string]string{}
	for _, arg := range o.Args {
		name := upstreamflags.Name(arg)
		r.given[name] = true
		values[name] = strings.TrimLeft(arg, "-")
	}
	all := namedFiles()
	var names []string
	for name := range r.given {
		if all[name].check != nil {
			names = append(names, name)
		}
	}
	source := func(string) string { return argFlag }
	if file := o.Files.AuditPolicy; file != "" && !r.given["audit-policy-file"] {
		// The one file that has a flag of a4s. That which a4s writes may not be there yet.
		if _, err := os.Stat(file); err == nil {
			names = append(names, "audit-policy-file")
			values["audit-policy-file"] = file
			source = func(name string) string {
				if name == "audit-policy-file" {
					return "--" + name
				}
				return argFlag
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	// Expressions are compiled as the gates say.
	if err := setGates(s); err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := all[name].check(r); err != nil {
			return &problem.Input{Source: source(name), Value: values[name], Err: err, Want: all[name].want}
		}
	}
	return nil
}

// pair reads a certificate with its key. One of which only the certificate is the user's is
// read alone.
func (r *reading) pair(certFlag, cert, keyFlag, key string) error {
	if !r.given[certFlag] || !r.given[keyFlag] {
		return readCA(cert)
	}
	return readPair(cert, key)
}

// readAuditLog looks whether a file can be written: upstream makes it, with its directories,
// when it starts.
func readAuditLog(r *reading) error {
	path := r.Audit.LogOptions.Path
	if path == "" || path == "-" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	case err != nil && !os.IsNotExist(err):
		return fmt.Errorf("looking at the audit log: %w", err)
	}
	return nil
}
