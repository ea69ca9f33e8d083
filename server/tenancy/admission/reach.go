package admission

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apiserver/pkg/admission"
	registry "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/reach"
)

// Reach says how webhooks of a tenant are reached, conversion webhooks included:
// their Services are native names, nobody's credentials go to them, and they are
// where server/tenancy/reach lets a tenant have connections to.
func (a *Admission) Reach(tenant string) (webhook.ServiceResolver, webhook.AuthenticationInfoResolverWrapper) {
	return services{a.services, tenant}, bounded(anonymous(a.authInfo, tenant, a.guard.reach))
}

// ReachConversions is Reach for conversion webhooks. Controllers that empty
// namespaces wait for them as users do, so after failures in a row nobody does
// for a while.
func (a *Admission) ReachConversions(
	tenant string,
) (webhook.ServiceResolver, webhook.AuthenticationInfoResolverWrapper) {
	resolver, auth := a.Reach(tenant)
	s := &standing{changed: func(open bool) { a.conversionsChanged(tenant, open) }}
	return resolver, wrapped(auth, func(rt http.RoundTripper) http.RoundTripper { return conversion{rt, s} })
}

// Dial is how the API server itself connects to what is in the cluster.
func (a *Admission) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return a.guard.reach.Dial(ctx, network, address)
}

// Dialer connects to what a tenant names, as for its webhooks.
func (a *Admission) Dialer(tenant string) reach.Dial { return a.guard.reach.Dialer(tenant, nil) }

// GuardProxies lets tenants proxy to their own pods only.
func (a *Admission) GuardProxies(storage map[string]registry.Storage) error {
	return a.guard.reach.GuardProxies(storage)
}

// services resolves the native namespaces of a tenant's webhooks.
type services struct {
	inner interface {
		ResolveEndpoint(namespace, name string, port int32) (*url.URL, error)
	}
	tenant string
}

// ResolveEndpoint implements webhook.ServiceResolver.
func (s services) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	return s.inner.ResolveEndpoint(space.Namespace(s.tenant, namespace), name, port)
}

// anonymous has the webhooks of a tenant called without credentials. Upstream
// calls a webhook at default/kubernetes as the API server itself, with all
// rights; in native names that would be a Service of the tenant.
func anonymous(
	wrap webhook.AuthenticationInfoResolverWrapper, tenant string, rules *reach.Rules,
) webhook.AuthenticationInfoResolverWrapper {
	return func(webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		var inner webhook.AuthenticationInfoResolver = nobody{}
		if wrap != nil {
			inner = wrap(inner)
		}
		confined := func(cfg *rest.Config, err error) (*rest.Config, error) {
			if err != nil {
				return nil, err
			}
			cfg = rest.CopyConfig(cfg)
			cfg.Dial, cfg.Proxy = rules.Dialer(tenant, cfg.Dial), reach.NoProxy
			cfg.Wrap(reach.Straight)
			return cfg, nil
		}
		return &webhook.AuthenticationInfoResolverDelegator{
			// Only the dialer depends on what is asked here, and is the same
			// for every host.
			ClientConfigForFunc: func(string) (*rest.Config, error) { return confined(inner.ClientConfigFor("")) },
			ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
				return confined(inner.ClientConfigForService(name, space.Namespace(tenant, namespace), port))
			},
		}
	}
}

// nobody knows no credentials.
type nobody struct{}

// ClientConfigFor implements webhook.AuthenticationInfoResolver.
func (nobody) ClientConfigFor(string) (*rest.Config, error) {
	return &rest.Config{UserAgent: "kube-apiserver-admission", Timeout: 30 * time.Second}, nil
}

// ClientConfigForService implements webhook.AuthenticationInfoResolver.
func (n nobody) ClientConfigForService(string, string, int) (*rest.Config, error) {
	return n.ClientConfigFor("")
}

// reinvocation keeps what the plugins of a tenant remember between the rounds
// of a request apart from what those of the system do: they have the same
// names, may have webhooks of the same names, and see another form of the
// object.
type reinvocation struct{ admission.ReinvocationContext }

// Value implements admission.ReinvocationContext.
func (r reinvocation) Value(plugin string) any {
	return r.ReinvocationContext.Value(plugin + "/tenant")
}

// SetValue implements admission.ReinvocationContext.
func (r reinvocation) SetValue(plugin string, v any) {
	r.ReinvocationContext.SetValue(plugin+"/tenant", v)
}
