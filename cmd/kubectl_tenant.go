package cmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/space"
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
	// Tenant is the space to work in, empty for that of the manifests or the
	// kubeconfig. Source is what says so, a flag or a variable.
	Tenant, Source string
	// Warn tells the user something, unless it is nil.
	Warn func(string)

	// named and unnamed are the first objects that name a space and none.
	named, unnamed *Named
	// second is an object that names another space than named.
	second *Named

	once sync.Once
	err  error
}

// Named is an object that a command is about, by what describes it.
type Named struct {
	// Source is where the object says its tenant.
	Source string
	// Tenant is empty if it says none.
	Tenant string
	// Typed says that it is not of an object but of the command line, as for cp: it is not
	// ignored.
	Typed bool
}

// TenantFlag is the value of --tenant, without what the environment says.
func (k *KubectlRun) TenantFlag() string {
	if k.Source != "--"+tenantFlag {
		return ""
	}
	return k.Tenant
}

// newKubectlRun takes --tenant out of args, up to "--": kubectl has no such
// flag.
func newKubectlRun(args []string, env string) (*KubectlRun, error) {
	k := &KubectlRun{Tenant: env, Source: tenantEnv}
	if len(args) > 0 && isCompletion(args[0]) {
		// kubectl completes the flag as its own, and reads it for that.
		k.Args = args
		return k, nil
	}
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
		k.Source = "--" + tenantFlag
		if !withValue || value == "" {
			return nil, &problem.Input{Source: k.Source, Err: config.ErrNoValue, Want: "the name of a tenant"}
		}
		k.Tenant = value
	}
	if k.Tenant == "" || reservedSpace(k.Tenant) {
		return k, nil
	}
	return k, checkTenant(k.Source, k.Tenant)
}

// reservedSpace tells the names that are no tenants but can be addressed.
func reservedSpace(name string) bool { return name == space.System || name == space.All }

// Name tells the run of the objects that the command is about.
func (k *KubectlRun) Name(objects ...Named) {
	for i := range objects {
		o := &objects[i]
		switch {
		case o.Tenant == "" && k.unnamed == nil:
			k.unnamed = o
		case o.Tenant != "" && k.named == nil:
			k.named = o
		case o.Tenant != "" && o.Tenant != k.named.Tenant:
			k.second = o
			return
		}
	}
}

// space returns the space to work in and what says so, both empty for that of
// the kubeconfig, which is for the tenant of, if that is not empty. The space that is
// asked for counts, whatever objects name. One command works in one space.
func (k *KubectlRun) space(of string) (tenant, source string, err error) {
	const want = "a kubeconfig of an administrator of the cluster, in --kubeconfig or KUBECONFIG"
	// Users of the system reach every space.
	ofTenant := of != "" && !reservedSpace(of)
	switch {
	case k.Tenant != "" && ofTenant && k.Tenant != of:
		return "", "", &problem.Input{Source: k.Source, Value: k.Tenant,
			Err: fmt.Errorf("the kubeconfig is for the tenant %s only", of), Want: want}
	case k.named == nil:
		return k.Tenant, k.Source, nil
	case k.Tenant != "":
		return k.Tenant, k.Source, k.named.meets(k.Tenant, fmt.Errorf("%s is %s", k.Source, k.Tenant),
			"the same tenant in both")
	case ofTenant:
		return "", "", k.named.meets(of, fmt.Errorf("the kubeconfig is for the tenant %s only", of), want)
	}
	named := k.named.Tenant
	if !reservedSpace(named) {
		if err := checkTenant(k.named.Source, named); err != nil {
			return "", "", err
		}
	}
	in := &problem.Input{Source: k.named.Source, Value: named}
	switch {
	case k.second != nil:
		in.Err = fmt.Errorf("%s is %s", k.second.Source, k.second.Tenant)
		in.Want = fmt.Sprintf("objects of one tenant in a command, or the space to work in, in --%s", tenantFlag)
	case k.unnamed != nil:
		in.Err = fmt.Errorf("%s is not set", k.unnamed.Source)
		in.Want = fmt.Sprintf("--%s %s if all objects are of that tenant, or two commands", tenantFlag, named)
	default:
		return named, k.named.Source, nil
	}
	return "", "", in
}

// meets is an error if the tenant was typed and is not that of the command.
func (n *Named) meets(tenant string, why error, want string) error {
	if !n.Typed || n.Tenant == tenant {
		return nil
	}
	return &problem.Input{Source: n.Source, Value: n.Tenant, Err: why, Want: want}
}

// overruled says that objects name another space than the one to work in, "" if
// none does.
func (k *KubectlRun) overruled(tenant string) string {
	for _, o := range []*Named{k.named, k.second} {
		if o != nil && o.Tenant != tenant {
			return fmt.Sprintf("%s: %q is ignored, the space of the command is %s", o.Source, o.Tenant, tenant)
		}
	}
	return ""
}

// Wrap makes the client configuration that kubectl found into that of the
// space to work in. loader is where it found it and server the value of
// --server. fail is told, at most once, before the first request, that there is
// no kubeconfig or no such tenant or more than one; only then, because much of
// kubectl needs no server. It is also told why the server refuses the space.
func (k *KubectlRun) Wrap(
	cfg *rest.Config, loader clientcmd.ClientConfig, server string, fail func(error),
) *rest.Config {
	u, err := tenantadmin.ServerURL(cfg)
	if err != nil {
		return cfg // kubectl says what is wrong
	}
	cluster, of := tenantadmin.SplitAddress(u.String())
	tenant, source, spaceErr := k.space(of)
	out, inSpace := rest.CopyConfig(cfg), tenant != "" || of != ""
	if tenant != "" {
		out.Host = tenantadmin.Address(cluster, tenant)
		u, err = tenantadmin.ServerURL(out)
	}
	if err != nil || !inSpace {
		u = &url.URL{}
	}
	check := func(ctx context.Context) error {
		switch err := checkLoaded(cfg.Host, loader, server); {
		case err != nil:
			return err
		case spaceErr != nil:
			return spaceErr
		case tenant != "" && (of == "" || reservedSpace(of)):
			return checkExists(ctx, cfg, cluster, source, tenant)
		}
		return nil
	}
	g := gate{inSpace: inSpace, below: u.Path, refused: fail, check: func(ctx context.Context) error {
		k.once.Do(func() {
			if k.err = check(ctx); k.err != nil {
				fail(k.err)
			} else if warning := k.overruled(cmp.Or(tenant, of)); warning != "" && inSpace && k.Warn != nil {
				k.Warn(warning)
			}
		})
		return k.err
	}}
	out.Wrap(func(next http.RoundTripper) http.RoundTripper {
		g := g
		g.next = next
		return &g
	})
	return out
}

// CheckPlugin says why a plugin cannot be run.
func (k *KubectlRun) CheckPlugin(path string) error {
	if k.Tenant == "" {
		return nil
	}
	return &problem.Input{Source: "--" + tenantFlag, Value: k.Tenant,
		Err: fmt.Errorf("the plugin %s would not work in the space of the tenant", filepath.Base(path)),
		Want: fmt.Sprintf("a kubeconfig of the tenant in KUBECONFIG instead, as \"a4s tenant kubeconfig %s\" makes it",
			k.Tenant)}
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
			if err := readable(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return &problem.Input{Source: "kubeconfig " + path, Err: err,
					Want: "to be run by a user who can read it (see --write-kubeconfig-mode of a4s server), " +
						"or another file in --kubeconfig, KUBECONFIG or " + strings.Join(files, ", ")}
			}
			files = append(files, path)
		}
	}
	shown := strings.Join(files, ", ")
	const want = "a4s server to run on this machine, or a kubeconfig in --kubeconfig or KUBECONFIG"
	if clientcmdapi.IsConfigEmpty(&raw) {
		return &problem.Input{Source: "kubeconfig", Err: errors.New("none found; looked for " + shown), Want: want}
	}
	return &problem.Input{Source: "kubeconfig", Err: errors.New("no current context in " + shown),
		Want: `one that "kubectl config use-context" sets, or --context`}
}

// checkExists says so if there is surely no such tenant. Any other answer, or
// none, is for kubectl to report.
func checkExists(ctx context.Context, cfg *rest.Config, cluster, source, tenant string) error {
	if reservedSpace(tenant) {
		return nil
	}
	short := rest.CopyConfig(cfg)
	short.Host, short.Timeout = cluster, checkTimeout
	admin, err := tenantadmin.New(short)
	if err != nil {
		return nil
	}
	_, err = admin.Get(ctx, tenant)
	if !tenantadmin.NotFound(err, tenant) {
		return nil
	}
	return unknownTenant(ctx, admin, source, tenant)
}

// gate lets requests pass once it has checked that they can succeed. What kubectl
// sends to a path of the server, as proxy and --raw do, it sends to that path in the
// space.
type gate struct {
	next  http.RoundTripper
	check func(context.Context) error
	// below is the path of the space, empty for that of no space.
	below string
	// inSpace is set if a space is named in the address. refused learns why
	// the server does not let the user into it.
	inSpace bool
	refused func(error)
}

var _ utilnet.RoundTripperWrapper = (*gate)(nil)

// RoundTrip implements http.RoundTripper.
func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := g.check(req.Context()); err != nil {
		return nil, err
	}
	if path := req.URL.Path; path != g.below && !strings.HasPrefix(path, g.below+"/") {
		req = req.Clone(req.Context())
		req.URL.Path = g.below + "/" + strings.TrimPrefix(path, "/")
		if raw := req.URL.RawPath; raw != "" {
			req.URL.RawPath = g.below + "/" + strings.TrimPrefix(raw, "/")
		}
	}
	resp, err := g.next.RoundTrip(req)
	if err == nil && g.inSpace && resp.StatusCode == http.StatusForbidden {
		if refusal := discoveryRefused(resp, req.URL.Path); refusal != nil {
			g.refused(refusal)
		}
	}
	return resp, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (g *gate) WrappedRoundTripper() http.RoundTripper { return g.next }

// discoveryRefused returns what the server says about a space that the user
// may not look at. client-go drops the sentence from answers to discovery, and
// kubectl, which cannot do anything without it, says "unknown".
func discoveryRefused(resp *http.Response, path string) error {
	root, ok := strings.CutSuffix(path, "/api")
	if _, tenant := tenantadmin.SplitAddress(root); !ok || tenant == "" {
		return nil
	}
	const most = 64 << 10
	data, err := io.ReadAll(io.LimitReader(resp.Body, most))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(data), resp.Body), resp.Body}
	if err != nil {
		return nil
	}
	var status metav1.Status
	if err := json.Unmarshal(data, &status); err != nil || status.Kind != "Status" || status.Message == "" {
		return nil
	}
	return apierrors.FromObject(&status)
}
