package reach

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	podrest "k8s.io/kubernetes/pkg/registry/core/pod/rest"
	servicerest "k8s.io/kubernetes/pkg/registry/core/service"

	"github.com/a4s-io/a4s/internal/space"
)

// GuardProxies lets the proxies of pods and Services in upstream's storage of
// the core group connect, for tenants, to their own pods only. Upstream
// connects to whatever address is in the status of a pod.
func (r *Rules) GuardProxies(storage map[string]rest.Storage) error {
	pods, ok1 := storage["pods/proxy"].(*podrest.ProxyREST)
	services, ok2 := storage["services/proxy"].(*servicerest.ProxyREST)
	if !ok1 || !ok2 {
		return fmt.Errorf("the proxies are %T and %T, which cannot be guarded", storage["pods/proxy"], storage["services/proxy"])
	}
	storage["pods/proxy"] = &podProxy{pods, r}
	storage["services/proxy"] = &serviceProxy{services, r}
	return nil
}

type podProxy struct {
	*podrest.ProxyREST
	rules *Rules
}

// Connect implements rest.Connecter.
func (p *podProxy) Connect(ctx context.Context, id string, opts runtime.Object, responder rest.Responder) (http.Handler, error) {
	tenant := tenantIn(ctx)
	if space.IsSystem(tenant) {
		return p.ProxyREST.Connect(ctx, id, opts, responder)
	}
	own := &podrest.ProxyREST{Store: p.Store, ProxyTransport: p.rules.transport(tenant)}
	return own.Connect(ctx, id, opts, responder)
}

type serviceProxy struct {
	*servicerest.ProxyREST
	rules *Rules
}

// Connect implements rest.Connecter.
func (p *serviceProxy) Connect(ctx context.Context, id string, opts runtime.Object, responder rest.Responder) (http.Handler, error) {
	tenant := tenantIn(ctx)
	if space.IsSystem(tenant) {
		return p.ProxyREST.Connect(ctx, id, opts, responder)
	}
	own := &servicerest.ProxyREST{Redirector: &redirector{p.Redirector, p.rules.transport(tenant)}}
	return own.Connect(ctx, id, opts, responder)
}

// redirector finds what inner does, for another transport.
type redirector struct {
	rest.Redirector
	transport http.RoundTripper
}

// ResourceLocation implements rest.Redirector.
func (r *redirector) ResourceLocation(ctx context.Context, id string) (*url.URL, http.RoundTripper, error) {
	location, _, err := r.Redirector.ResourceLocation(ctx, id)
	return location, r.transport, err
}

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
