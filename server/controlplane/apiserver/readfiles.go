package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	apiserverinstall "k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/audit/policy"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/egressselector"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	"k8s.io/kubernetes/pkg/auth/authorizer/abac"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
	"k8s.io/kubernetes/plugin/pkg/admission/security/podsecurity"
	"k8s.io/pod-security-admission/admission/api/load"
	podsecurityvalidation "k8s.io/pod-security-admission/admission/api/validation"
)

// readAuthentication makes the authenticators of a configuration, which compiles its
// expressions, too, and asks no issuer.
func readAuthentication(r *reading) error {
	return r.issuers(func(o *kubeoptions.BuiltInAuthenticationOptions) {
		o.AuthenticationConfigFile = r.Authentication.AuthenticationConfigFile
		o.Anonymous = r.Authentication.Anonymous
	})
}

// readIssuer makes the authenticator of the flags of an issuer.
func readIssuer(r *reading) error {
	return r.issuers(func(o *kubeoptions.BuiltInAuthenticationOptions) { o.OIDC = r.Authentication.OIDC })
}

// issuers makes the authenticators of tokens of issuers by what set takes of the options.
func (r *reading) issuers(set func(*kubeoptions.BuiltInAuthenticationOptions)) error {
	o := &kubeoptions.BuiltInAuthenticationOptions{}
	set(o)
	c, err := o.ToAuthenticationConfig()
	if err != nil {
		return err
	}
	own := r.Authentication.ServiceAccounts.Issuers
	if err := validation.ValidateAuthenticationConfiguration(authenticationcel.NewDefaultCompiler(),
		c.AuthenticationConfig, own).ToAggregate(); err != nil {
		return err
	}
	egress, err := r.egress()
	if err != nil {
		return nil //nolint:nilerr // it is said of the flag that names its file
	}
	for _, a := range c.AuthenticationConfig.JWT {
		// With keys there is no discovery, and nothing is asked.
		a.Issuer.DiscoveryURL = ""
		made := oidc.Options{JWTAuthenticator: a, SupportedSigningAlgs: c.OIDCSigningAlgs, DisallowedIssuers: own,
			KeySet: noKeys{}}
		switch {
		case a.Issuer.CertificateAuthority != "":
			ca, err := dynamiccertificates.NewStaticCAContent("check", []byte(a.Issuer.CertificateAuthority))
			if err != nil {
				return err
			}
			made.CAContentProvider = ca
		case a.Issuer.EgressSelectorType == "":
			made.Client = http.DefaultClient
		}
		if egress != nil && made.Client == nil {
			made.EgressLookup = egress.Lookup
		}
		if _, err := oidc.New(r.over, made); err != nil {
			return err
		}
	}
	return nil
}

// noKeys are of an authenticator that only shows that it can be made.
type noKeys struct{}

// VerifySignature implements the keys of upstream's authenticator.
func (noKeys) VerifySignature(context.Context, string) ([]byte, error) {
	return nil, errors.New("there are no keys")
}

func readTokens(r *reading) error {
	_, err := tokenfile.NewCSV(r.Authentication.TokenFile.TokenFile)
	return err
}

func readTokenWebhook(r *reading) error { return readWebhook(r.Authentication.WebHook.ConfigFile) }

func readAccessWebhook(r *reading) error { return readWebhook(r.Authorization.WebhookConfigFile) }

func readAuditWebhook(r *reading) error { return readWebhook(r.Audit.WebhookOptions.ConfigFile) }

// readWebhook makes the client of a webhook, which reads the certificates that its
// kubeconfig names.
func readWebhook(file string) error {
	c, err := webhook.LoadKubeconfig(file, nil)
	if err != nil {
		return err
	}
	_, err = rest.HTTPClientFor(c)
	return err
}

func readPolicies(r *reading) error {
	_, err := abac.NewFromFile(r.Authorization.PolicyFile)
	return err
}

func readAuditPolicy(r *reading) error {
	_, err := policy.LoadPolicyFromFile(r.Audit.PolicyFile)
	return err
}

func readEgress(r *reading) error {
	_, err := r.egress()
	return err
}

// egress are the connections of the egress selector, nil without one.
func (r *reading) egress() (*egressselector.EgressSelector, error) {
	c, err := egressselector.ReadEgressSelectorConfiguration(r.EgressSelector.ConfigFile)
	if err != nil {
		return nil, err
	}
	if err := egressselector.ValidateEgressSelectorConfiguration(c).ToAggregate(); err != nil {
		return nil, err
	}
	return egressselector.NewEgressSelector(c)
}

func readTracing(r *reading) error {
	c, err := genericoptions.ReadTracingConfiguration(r.Traces.ConfigFile)
	if err != nil {
		return err
	}
	return tracingapi.ValidateTracingConfiguration(c, utilfeature.DefaultFeatureGate, nil).ToAggregate()
}

func readEncryption(r *reading) error {
	_, err := encryptionconfig.LoadEncryptionConfig(r.over, r.Etcd.EncryptionProviderConfigFilepath,
		r.Etcd.EncryptionProviderConfigAutomaticReload, "")
	return err
}

// readPlugins looks at the names of plugins, and makes the plugins.
func readPlugins(r *reading) error {
	if errs := r.Admission.Validate(); len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	return readAdmission(r)
}

// readAdmission makes every plugin that is on and is asked for or has a configuration. Some do
// not start without one.
func readAdmission(r *reading) error {
	scheme := runtime.NewScheme()
	apiserverinstall.Install(scheme)
	o := r.Admission.GenericAdmission
	var on []string
	asked := slices.Concat(o.EnablePlugins, r.Admission.PluginNames)
	for _, name := range o.RecommendedPluginOrder {
		off := o.DefaultOffPlugins.Has(name) || slices.Contains(o.DisablePlugins, name)
		if slices.Contains(asked, name) || !off {
			on = append(on, name)
		}
	}
	configs, err := admission.ReadAdmissionConfiguration(on, o.ConfigFile, scheme)
	if err != nil {
		return err
	}
	if o.ConfigFile != "" {
		if err := openPluginFiles(o.ConfigFile, scheme); err != nil {
			return err
		}
	}
	for _, name := range on {
		config, err := configs.ConfigFor(name)
		if err != nil {
			return fmt.Errorf("plugin %s: %w", name, err)
		}
		if config == nil && !slices.Contains(asked, name) {
			continue
		}
		if config != nil && name == podsecurity.PluginName {
			// The one that looks at its values only when it has its clients.
			if err := readPodSecurity(config); err != nil {
				return fmt.Errorf("plugin %s: %w", name, err)
			}
			continue
		}
		made := false
		_, err = o.Plugins.InitPlugin(name, config, initializer(func() { made = true }))
		if !made { // what comes after that is missing here and will be there
			return err
		}
	}
	return nil
}

func readPodSecurity(from io.Reader) error {
	c, err := load.LoadFromReader(from)
	if err != nil {
		return err
	}
	return podsecurityvalidation.ValidatePodSecurityConfiguration(c).ToAggregate()
}

// openPluginFiles opens the files that an AdmissionConfiguration names: upstream ends the
// process when it cannot.
func openPluginFiles(file string, scheme *runtime.Scheme) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	c := &apiserverapi.AdmissionConfiguration{}
	if err := runtime.DecodeInto(serializer.NewCodecFactory(scheme).UniversalDecoder(), data, c); err != nil {
		return nil //nolint:nilerr // it is the configuration of one plugin, as upstream has read it
	}
	for _, plugin := range c.Plugins {
		if plugin.Path == "" || plugin.Configuration != nil {
			continue
		}
		path := plugin.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(file), path)
		}
		if _, err := os.ReadFile(path); err != nil { // a directory can be opened
			return fmt.Errorf("plugin %s: %w", plugin.Name, err)
		}
	}
	return nil
}

// initializer is told that a plugin was made, and gives it nothing.
type initializer func()

// Initialize implements admission.PluginInitializer.
func (f initializer) Initialize(admission.Interface) { f() }

func readCA(file string) error {
	_, err := cert.CertsFromFile(file)
	return err
}

func readKey(file string) error {
	_, err := keyutil.PrivateKeyFromFile(file)
	return err
}

func readPair(certFile, keyFile string) error {
	_, err := dynamiccertificates.NewDynamicServingContentFromFiles("check", certFile, keyFile)
	return err
}

func readNamedPairs(r *reading) error {
	var errs []error
	for _, pair := range r.SecureServing.SNICertKeys {
		errs = append(errs, readPair(pair.CertFile, pair.KeyFile))
	}
	return errors.Join(errs...)
}

func readPublicKeys(files []string) error {
	var errs []error
	for _, file := range files {
		if _, err := keyutil.PublicKeysFromFile(file); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
