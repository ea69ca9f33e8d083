package reach

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	noderest "k8s.io/kubernetes/pkg/registry/core/node/rest"
	podrest "k8s.io/kubernetes/pkg/registry/core/pod/rest"
	servicerest "k8s.io/kubernetes/pkg/registry/core/service"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/edge/proxied"
)

// GuardProxies lets the proxies of pods and Services in upstream's storage of
// the core group connect, for tenants, to their own pods only. Upstream
// connects to whatever address is in the status of a pod. All proxies, those of
// nodes too, show the path by which the client asked.
func (r *Rules) GuardProxies(storage map[string]rest.Storage) error {
	pods, ok1 := storage["pods/proxy"].(*podrest.ProxyREST)
	services, ok2 := storage["services/proxy"].(*servicerest.ProxyREST)
	nodes, ok3 := storage["nodes/proxy"].(*noderest.ProxyREST)
	if !ok1 || !ok2 || !ok3 {
		return fmt.Errorf("the proxies are %T, %T and %T, which cannot be guarded", storage["pods/proxy"],
			storage["services/proxy"], storage["nodes/proxy"])
	}
	storage["pods/proxy"] = &podProxy{pods, r}
	storage["services/proxy"] = &serviceProxy{services, r}
	storage["nodes/proxy"] = &nodeProxy{nodes}
	return nil
}

type podProxy struct {
	*podrest.ProxyREST
	rules *Rules
}

// Connect implements rest.Connecter.
func (p *podProxy) Connect(
	ctx context.Context, id string, opts runtime.Object, responder rest.Responder,
) (http.Handler, error) {
	own := &podrest.ProxyREST{Store: p.Store, ProxyTransport: p.rules.proxies(ctx, p.ProxyTransport)}
	return shown(ctx)(own.Connect(ctx, id, opts, responder))
}

type serviceProxy struct {
	*servicerest.ProxyREST
	rules *Rules
}

// Connect implements rest.Connecter.
func (p *serviceProxy) Connect(
	ctx context.Context, id string, opts runtime.Object, responder rest.Responder,
) (http.Handler, error) {
	own := &servicerest.ProxyREST{Redirector: &redirector{p.Redirector, p.rules}}
	return shown(ctx)(own.Connect(ctx, id, opts, responder))
}

type nodeProxy struct{ *noderest.ProxyREST }

// Connect implements rest.Connecter.
func (p *nodeProxy) Connect(
	ctx context.Context, id string, opts runtime.Object, responder rest.Responder,
) (http.Handler, error) {
	return shown(ctx)(p.ProxyREST.Connect(ctx, id, opts, responder))
}

// shown has a proxy show the path of the client where upstream has that of the
// request: in redirects, in links of pages, and in what the proxied server is told.
func shown(ctx context.Context) func(http.Handler, error) (http.Handler, error) {
	return func(h http.Handler, err error) (http.Handler, error) {
		asked := proxied.From(ctx)
		if asked == nil || err != nil {
			return h, err
		}
		upstream, ok := h.(*proxy.UpgradeAwareHandler)
		if !ok {
			return nil, fmt.Errorf("the proxy is a %T, which cannot be told the path of the client", h)
		}
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			u := *req.URL
			// Upstream takes what comes before the path at the proxied server
			// for the proxy's, so it ends with that, however the client wrote it.
			if u.Path, u.RawPath = asked.Root+upstream.Location.Path, ""; strings.HasSuffix(req.URL.Path, "/") &&
				!strings.HasSuffix(u.Path, "/") {
				u.Path += "/"
			}
			as := *req
			as.URL = &u
			upstream.ServeHTTP(w, &as)
		}), nil
	}
}

// redirector finds what inner does, for another transport.
type redirector struct {
	rest.Redirector
	rules *Rules
}

// ResourceLocation implements rest.Redirector.
func (r *redirector) ResourceLocation(ctx context.Context, id string) (*url.URL, http.RoundTripper, error) {
	location, transport, err := r.Redirector.ResourceLocation(ctx, id)
	return location, r.rules.proxies(ctx, transport), err
}

// proxies is the transport of a request to a proxied server, where upstream has
// inner.
func (r *Rules) proxies(ctx context.Context, inner http.RoundTripper) http.RoundTripper {
	if tenant := tenantIn(ctx); !space.IsSystem(tenant) {
		inner = r.transport(tenant)
	}
	if inner == nil {
		return nil // upstream's default
	}
	return pages{noting{inner}}
}

// noting takes note of what the proxied server answers.
type noting struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (n noting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := n.inner.RoundTrip(req)
	if err == nil {
		proxied.From(req.Context()).Answer()
	}
	return resp, err
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery, by which
// upstream finds how to connect for an upgrade.
func (n noting) WrappedRoundTripper() http.RoundTripper { return n.inner }

// transport is that of one request. Connections are not kept: another tenant's
// pod may have the address next. Names are not verified, as upstream does not:
// pods have none.
func (r *Rules) transport(tenant string) http.RoundTripper {
	return &http.Transport{
		DialContext: r.PodDialer(tenant), DisableKeepAlives: true, TLSHandshakeTimeout: 10 * time.Second,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}
}

// tenantIn is the tenant of the namespace that a request is about.
func tenantIn(ctx context.Context) string {
	tenant, _ := space.SplitNamespace(request.NamespaceValue(ctx))
	return tenant
}
