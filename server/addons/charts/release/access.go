package release

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// access is what Helm asks for to reach the API. It remembers the kinds for one action, and keeps no file.
type access struct {
	config    *rest.Config
	namespace string
	kinds     discovery.CachedDiscoveryInterface
	mapper    meta.RESTMapper
}

// newAccess returns one whose requests end with ctx: Helm itself has none for most of what it does.
func newAccess(ctx context.Context, config *rest.Config, namespace string) (*access, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the API server has its own ways to say that it is too much
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return until{ctx, next} })
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	kinds := memory.NewMemCacheClient(client)
	return &access{config: config, namespace: namespace, kinds: kinds,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(kinds)}, nil
}

// ToRESTConfig implements genericclioptions.RESTClientGetter.
func (a *access) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(a.config), nil }

// ToDiscoveryClient implements genericclioptions.RESTClientGetter.
func (a *access) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) { return a.kinds, nil }

// ToRESTMapper implements genericclioptions.RESTClientGetter.
func (a *access) ToRESTMapper() (meta.RESTMapper, error) { return a.mapper, nil }

// ToRawKubeConfigLoader implements genericclioptions.RESTClientGetter.
func (a *access) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(),
		&clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: a.namespace}})
}

// until sends requests until a context ends.
type until struct {
	ctx  context.Context
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (u until) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := u.ctx.Err(); err != nil {
		return nil, err
	}
	return u.next.RoundTrip(req)
}

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (u until) WrappedRoundTripper() http.RoundTripper { return u.next }
