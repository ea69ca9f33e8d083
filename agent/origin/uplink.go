package origin

import (
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Uplink is where requests are sent on. It has the parsed request, so it can
// choose the API server by it.
type Uplink interface {
	// Send sends the request as a http.RoundTripper does.
	Send(r *Request) (*http.Response, error)
	// CloseIdleConnections drops connections that may hang.
	CloseIdleConnections()
}

// Direct sends all requests to the one API server behind rt.
func Direct(rt http.RoundTripper) Uplink { return direct{rt} }

type direct struct{ rt http.RoundTripper }

func (d direct) Send(r *Request) (*http.Response, error) { return d.rt.RoundTrip(r.HTTP) }

func (d direct) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(d.rt) }
