package cmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantadmin"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

const (
	tenantFlag = "tenant"
	tenantEnv  = "A4S_TENANT"
	// kubeMaster is an old way to tell kubectl its server.
	kubeMaster = "KUBERNETES_MASTER"
	// checkTimeout bounds the question whether a tenant exists.
	checkTimeout = 5 * time.Second
)

// KubectlRun is one run of kubectl.
type KubectlRun struct {
	// Args are the arguments for kubectl.
	Args []string
	// Tenant is the space to work in, empty for that of the kubeconfig.
	Tenant string

	once sync.Once
	err  error
}

// newKubectlRun takes --tenant out of args, up to "--": kubectl has no such
// flag.
func newKubectlRun(args []string, env string) (*KubectlRun, error) {
	k, source := &KubectlRun{Tenant: env}, tenantEnv
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			k.Args = append(k.Args, args[i:]...)
			break
		}
		value, withValue := strings.CutPrefix(arg, "--"+tenantFlag+"=")
		if arg == "--"+tenantFlag {
			if i++; i < len(args) && args[i] != "--" {
				value, withValue = args[i], true
			}
		} else if !withValue {
			k.Args = append(k.Args, arg)
			continue
		}
		source = "--" + tenantFlag
		if !withValue || value == "" {
			return nil, &problem.Input{Source: source, Err: config.ErrNoValue, Want: "the name of a tenant"}
		}
		k.Tenant = value
	}
	if k.Tenant == "" || reservedSpace(k.Tenant) {
		return k, nil
	}
	return k, checkTenant(source, k.Tenant)
}

// reservedSpace tells the names that are no tenants but can be addressed.
func reservedSpace(name string) bool { return name == space.System || name == space.All }

// Wrap makes the client configuration that kubectl found into that of the
// tenant. loader is where it found it and server the value of --server. fail
// is told, at most once and before the first request, that there is no
// kubeconfig or no such tenant; only then, because much of kubectl needs no
// server.
func (k *KubectlRun) Wrap(cfg *rest.Config, loader clientcmd.ClientConfig, server string, fail func(error)) *rest.Config {
	check := func(context.Context) error { return checkLoaded(cfg.Host, loader, server) }
	if k.Tenant == "" && check(context.Background()) == nil {
		return cfg
	}
	out := rest.CopyConfig(cfg)
	if k.Tenant != "" {
		u, err := tenantadmin.ServerURL(cfg)
		if err != nil {
			return cfg // kubectl says what is wrong
		}
		cluster, of := tenantadmin.SplitAddress(u.String())
		out.Host = tenantadmin.Address(cluster, k.Tenant)
		check = func(ctx context.Context) error {
			if err := checkLoaded(cfg.Host, loader, server); err != nil {
				return err
			}
			switch of {
			case "":
				return k.checkExists(ctx, cfg)
			case k.Tenant:
				return nil
			}
			return &problem.Input{Source: "--" + tenantFlag, Value: k.Tenant, Err: fmt.Errorf("the kubeconfig is for the tenant %s only", of),
				Want: "a kubeconfig of an administrator of the cluster, in --kubeconfig or KUBECONFIG"}
		}
	}
	out.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &gate{next: next, check: func(ctx context.Context) error {
			k.once.Do(func() {
				if k.err = check(ctx); k.err != nil {
					fail(k.err)
				}
			})
			return k.err
		}}
	})
	return out
}

// CheckPlugin says why a plugin cannot be run.
func (k *KubectlRun) CheckPlugin(path string) error {
	if k.Tenant == "" {
		return nil
	}
	return &problem.Input{Source: "--" + tenantFlag, Value: k.Tenant, Err: fmt.Errorf("the plugin %s would not work in the space of the tenant", filepath.Base(path)),
		Want: fmt.Sprintf("a kubeconfig of the tenant in KUBECONFIG instead, as \"a4s tenant kubeconfig %s\" makes it", k.Tenant)}
}

// checkLoaded refuses the server that kubectl falls back to if it is not told
// any: nothing listens there.
func checkLoaded(host string, loader clientcmd.ClientConfig, server string) error {
	if host != clientcmd.ClusterDefaults.Server || server != "" || os.Getenv(kubeMaster) != "" {
		return nil
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return nil // kubectl says so itself
	}
	for _, c := range raw.Clusters {
		if c.Server == host {
			return nil // somebody means it
		}
	}
	files := loader.ConfigAccess().GetLoadingPrecedence()
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if path := adminKubeconfig(); !slices.Contains(files, path) {
			files = append([]string{path}, files...)
		}
	}
	shown := strings.Join(files, ", ")
	const want = "a4s server to run on this machine, or a kubeconfig in --kubeconfig or KUBECONFIG"
	if clientcmdapi.IsConfigEmpty(&raw) {
		return &problem.Input{Source: "kubeconfig", Err: errors.New("none found; looked for " + shown), Want: want}
	}
	return &problem.Input{Source: "kubeconfig", Err: errors.New("no current context in " + shown), Want: `one that "kubectl config use-context" sets, or --context`}
}

// checkExists says so if there is surely no such tenant. Any other answer, or
// none, is for kubectl to report.
func (k *KubectlRun) checkExists(ctx context.Context, cfg *rest.Config) error {
	if reservedSpace(k.Tenant) {
		return nil
	}
	short := rest.CopyConfig(cfg)
	short.Timeout = checkTimeout
	admin, err := tenantadmin.New(short)
	if err != nil {
		return nil
	}
	_, err = admin.Get(ctx, k.Tenant)
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return nil
	}
	if d := status.Status().Details; d == nil || d.Kind != tenantapi.Resource || d.Name != k.Tenant {
		return nil
	}
	return unknownTenant(ctx, admin, "--"+tenantFlag, k.Tenant)
}

// gate lets requests pass once it has checked that they can succeed.
type gate struct {
	next  http.RoundTripper
	check func(context.Context) error
}

var _ utilnet.RoundTripperWrapper = (*gate)(nil)

// RoundTrip implements http.RoundTripper.
func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := g.check(req.Context()); err != nil {
		return nil, err
	}
	return g.next.RoundTrip(req)
}

// WrappedRoundTripper lets client-go find the transport below.
func (g *gate) WrappedRoundTripper() http.RoundTripper { return g.next }
