package apiserver

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/upstreamflags"
	"github.com/a4s-io/a4s/server/controlplane/featuregates"
	"github.com/a4s-io/a4s/server/datastore"
)

// Name is the component's name.
const Name = "kube-apiserver"

// readyPoll is how often a starting server is asked whether it is ready.
const readyPoll = 50 * time.Millisecond

// slowHooks are those of upstream that wait a second before they make what every
// new cluster has. Nothing else in the server needs them to be through.
func slowHooks() []string {
	return []string{rbacrest.PostStartHookName, schedulingrest.PostStartHookName}
}

// Files are the PEM files that the API server reads.
type Files struct {
	ClientCA                        string
	ServingCert, ServingKey         string
	KubeletCA                       string
	KubeletClientCert, KubeletKey   string
	RequestHeaderCA                 string
	ProxyClientCert, ProxyClientKey string
	// ServiceAccountKey signs and verifies service-account tokens.
	ServiceAccountKey string
	// EncryptionConfig says how Secrets are stored; "" is in plain text.
	EncryptionConfig string
	// AuditPolicy is set when AuditLog is.
	AuditPolicy, AuditLog string
	// CertDir is where upstream may write certificates; it stays empty.
	CertDir string
}

// Options configures the API server.
type Options struct {
	BindAddress      string
	Port             int
	AdvertiseAddress net.IP
	// ExternalHost is the "host:port" that clients are told, at /api; "" is AdvertiseAddress.
	ExternalHost         string
	ServiceCIDR          string
	ServiceNodePortRange string
	ClusterDomain        string
	Datastore            datastore.Endpoint
	Files                Files
	Seams                Seams
	// Args are user overrides from --kube-apiserver-arg.
	Args []string
	Log  *logrus.Entry
}

// New returns the supervised API server. It is ready when /readyz says that
// everything is but, perhaps, the hooks that Hooks waits for.
func New(o Options) component.Component {
	return component.Component{
		Name: Name,
		// Long enough for the drain below and for in-flight requests, which
		// upstream gives a minute.
		StopTimeout: 75 * time.Second,
		Run:         func(ctx context.Context, ready func()) error { return run(ctx, o, ready) },
	}
}

// Validate parses the user's arguments, and reads the files that they name, without
// starting anything.
func Validate(o Options) error {
	if err := featuregates.Check(argFlag, o.Args); err != nil {
		return err
	}
	s, err := parse(o)
	if err != nil {
		return err
	}
	return checkFiles(o, s)
}

// Check finds what upstream refuses of the user's arguments once the files are there,
// still without starting anything.
func Check(ctx context.Context, o Options) error {
	s, err := parse(o)
	if err != nil {
		return err
	}
	_, err = complete(ctx, s)
	return err
}

// complete sets the gates of the process and completes the options.
func complete(ctx context.Context, s *options.ServerRunOptions) (options.CompletedOptions, error) {
	if err := setGates(s); err != nil {
		return options.CompletedOptions{}, err
	}
	completed, err := s.Complete(ctx)
	if err != nil {
		return completed, &problem.Input{Source: argFlag, Err: err, Want: "arguments that kube-apiserver can complete"}
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return completed, &problem.Input{Source: argFlag, Err: utilerrors.NewAggregate(errs),
			Want: "arguments that kube-apiserver accepts together"}
	}
	return completed, nil
}

// setGates sets the gates of the process.
func setGates(s *options.ServerRunOptions) error {
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return &problem.Input{Source: argFlag, Err: err, Want: "feature gates of Kubernetes"}
	}
	return nil
}

// argFlag is the flag of a4s that carries the user's arguments.
const argFlag = "--kube-apiserver-arg"

func parse(o Options) (*options.ServerRunOptions, error) {
	s := options.NewServerRunOptions()
	fss := s.Flags()
	if err := upstreamflags.Parse(flatten(fss), argFlag, o.flags(), o.Args); err != nil {
		return nil, err
	}
	if disabled := s.Admission.GenericAdmission.DisablePlugins; slices.Contains(disabled, lifecycle.PluginName) {
		return nil, &problem.Input{
			Source: argFlag, Value: "disable-admission-plugins=" + strings.Join(disabled, ","),
			Want: "plugins other than " + lifecycle.PluginName + ", which keeps namespaces and tenants whole",
		}
	}
	if file := s.Authorization.AuthorizationConfigurationFile; file != "" {
		return nil, &problem.Input{
			Source: argFlag, Value: "authorization-config=" + file,
			Want: "authorization-mode with authorization-webhook-config-file: a4s itself asks RBAC, " +
				"for each space apart, and would not know of that in a file",
		}
	}
	return s, nil
}

func run(ctx context.Context, o Options, ready func()) error {
	s, err := parse(o)
	if err != nil {
		return err
	}
	readKeysOften()
	completed, err := complete(ctx, s)
	if err != nil {
		return err
	}
	// Building the chain opens the port, and only a server that runs closes it.
	defer closeListener(completed)
	// The other parts of the server have the same gates.
	utilfeature.DefaultMutableFeatureGate.AddMetrics()
	s.GenericServerRunOptions.ComponentGlobalsRegistry.AddMetrics()
	server, err := compose(completed, o.Seams)
	if err != nil {
		return err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return fmt.Errorf("preparing the server chain: %w", err)
	}
	go signalReady(ctx, server, ready)
	return prepared.Run(ctx)
}

// closeListener closes the port of a server that has ended or could not begin, so that
// the next one finds it free. It may be closed already.
func closeListener(o options.CompletedOptions) {
	if l := o.SecureServing.Listener; l != nil {
		_ = l.Close()
	}
}

// signalReady calls ready once the server's own readiness check passes.
func signalReady(ctx context.Context, server *aggregatorapiserver.APIAggregator, ready func()) {
	client, err := kubernetes.NewForConfig(rest.CopyConfig(server.GenericAPIServer.LoopbackClientConfig))
	if err != nil {
		return
	}
	var without []string
	for _, hook := range slowHooks() {
		without = append(without, "poststarthook/"+hook)
	}
	if awaitReady(ctx, client, without...) == nil {
		ready()
	}
}

// HooksName is the name of the component that Hooks returns.
const HooksName = "kube-apiserver-hooks"

// Hooks returns a component that is ready when /readyz says that everything is,
// the default roles and priority classes included. After that it calls then, if it is
// not nil.
func Hooks(client kubernetes.Interface, then func(context.Context) error) component.Component {
	return component.Component{Name: HooksName, Run: func(ctx context.Context, ready func()) error {
		if awaitReady(ctx, client) == nil {
			ready()
			if then != nil {
				if err := then(ctx); err != nil && ctx.Err() == nil {
					return err
				}
			}
		}
		<-ctx.Done()
		return nil
	}}
}

func awaitReady(ctx context.Context, client kubernetes.Interface, without ...string) error {
	request := func() error {
		r := client.Discovery().RESTClient().Get().AbsPath("/readyz")
		for _, check := range without {
			r = r.Param("exclude", check)
		}
		return r.Do(ctx).Error()
	}
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for request() != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Issuer is that of the tokens of service accounts, unless an argument names another.
func Issuer(clusterDomain string) string { return "https://kubernetes.default.svc." + clusterDomain }

// flags are a4s' settings by upstream's flag names.
func (o Options) flags() map[string]string {
	f := o.Files
	m := map[string]string{
		"advertise-address": o.AdvertiseAddress.String(),
		"allow-privileged":  "true",
		"anonymous-auth":    "false",
		// Service addresses are routable only where kube-proxy runs, which a
		// server without a node does not.
		"enable-aggregator-routing": "true",
		// RBAC is asked by the Access seam, see withoutRBAC.
		"authorization-mode":            "Node,RBAC",
		"enable-admission-plugins":      "NodeRestriction",
		"external-hostname":             o.ExternalHost,
		"bind-address":                  o.BindAddress,
		"cert-dir":                      f.CertDir,
		"client-ca-file":                f.ClientCA,
		"etcd-cafile":                   o.Datastore.CAFile,
		"etcd-certfile":                 o.Datastore.CertFile,
		"etcd-keyfile":                  o.Datastore.KeyFile,
		"etcd-servers":                  strings.Join(o.Datastore.URLs, ","),
		"kubelet-client-certificate":    f.KubeletClientCert,
		"kubelet-client-key":            f.KubeletKey,
		"kubelet-certificate-authority": f.KubeletCA,
		// A node's name need not resolve on the server.
		"kubelet-preferred-address-types": "InternalIP,ExternalIP,Hostname",
		// Behind authorization as everything, for administrators of the cluster only.
		"profiling":                          "true",
		"proxy-client-cert-file":             f.ProxyClientCert,
		"proxy-client-key-file":              f.ProxyClientKey,
		"requestheader-allowed-names":        ProxyClientName,
		"requestheader-client-ca-file":       f.RequestHeaderCA,
		"requestheader-extra-headers-prefix": "X-Remote-Extra-",
		"requestheader-group-headers":        "X-Remote-Group",
		"requestheader-username-headers":     "X-Remote-User",
		"secure-port":                        strconv.Itoa(o.Port),
		"service-account-issuer":             Issuer(o.ClusterDomain),
		"service-account-key-file":           f.ServiceAccountKey,
		"service-account-signing-key-file":   f.ServiceAccountKey,
		"service-cluster-ip-range":           o.ServiceCIDR,
		"service-node-port-range":            o.ServiceNodePortRange,
		// Watches are told to end and reconnect instead of being cut.
		"shutdown-watch-termination-grace-period": "5s",
		"tls-cert-file":        f.ServingCert,
		"tls-private-key-file": f.ServingKey,
	}
	if o.BindAddress == "" {
		m["bind-address"] = "0.0.0.0"
	}
	if f.EncryptionConfig != "" {
		m["encryption-provider-config"] = f.EncryptionConfig
		m["encryption-provider-config-automatic-reload"] = "true"
	}
	if f.AuditLog != "" {
		m["audit-log-path"] = f.AuditLog
		m["audit-policy-file"] = f.AuditPolicy
		m["audit-log-maxage"] = "30"
		m["audit-log-maxbackup"] = "10"
		m["audit-log-maxsize"] = "100"
	}
	return m
}

// ProxyClientName is the certificate name that aggregated API servers trust.
const ProxyClientName = pki.UserAuthProxy

// flatten puts the named flag sets of a component into one.
func flatten(fss cliflag.NamedFlagSets) *pflag.FlagSet {
	fs := pflag.NewFlagSet(Name, pflag.ContinueOnError)
	for _, f := range fss.FlagSets {
		fs.AddFlagSet(f)
	}
	return fs
}
