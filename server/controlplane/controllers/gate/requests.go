package gate

import (
	"net/http"
	"strings"

	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/controller-manager/pkg/clientbuilder"
)

// Clients are those of a builder, whose requests the gate counts.
func (g *Gate) Clients(b clientbuilder.ControllerClientBuilder) clientbuilder.ControllerClientBuilder {
	return &clients{b, g}
}

type clients struct {
	clientbuilder.ControllerClientBuilder
	gate *Gate
}

// Config implements clientbuilder.ControllerClientBuilder.
func (c *clients) Config(name string) (*restclient.Config, error) {
	config, err := c.ControllerClientBuilder.Config(name)
	if err != nil {
		return nil, err
	}
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &counter{rt, c.gate} })
	return config, nil
}

// Client implements clientbuilder.ControllerClientBuilder.
func (c *clients) Client(name string) (kubernetes.Interface, error) {
	config, err := c.Config(name)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// counter counts requests about namespaces.
type counter struct {
	http.RoundTripper
	gate *Gate
}

// RoundTrip implements http.RoundTripper.
func (c *counter) RoundTrip(req *http.Request) (*http.Response, error) {
	if namespace := namespaceOf(req.URL.Path); namespace != "" {
		defer c.gate.began(namespace)()
	}
	return c.RoundTripper.RoundTrip(req)
}

// WrappedRoundTripper implements k8s.io/apimachinery/pkg/util/net.RoundTripperWrapper.
func (c *counter) WrappedRoundTripper() http.RoundTripper { return c.RoundTripper }

// namespaceOf is the namespace in a path of /api/v1/namespaces/NAME/RESOURCE or
// /apis/GROUP/VERSION/namespaces/NAME/RESOURCE, as typed clients make them.
func namespaceOf(path string) string {
	_, rest, ok := strings.Cut(path, "/namespaces/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}
