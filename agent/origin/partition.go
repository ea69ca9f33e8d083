package origin

import (
	"net/http"
	"net/url"
	"path"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Partition is a tenant partition as this node reaches it.
type Partition struct {
	// Name is unique among the partitions of the cluster.
	Name string
	// Home says that it is the partition that founded the cluster. One is.
	Home bool
	// Transport sends requests to the partition's servers, wherever their URL
	// points. It stays the same while the partition has its name.
	Transport http.RoundTripper
}

// Partitions are the tenant partitions of the cluster.
type Partitions interface {
	// Current returns all of them, and a channel that is closed when there are
	// others. A partition that is missing has left the cluster, and its pods
	// end; so what is not known is never left out. No partition at all means
	// that they are not known yet.
	Current() (all []Partition, changed <-chan struct{})
}

// At returns a transport that sends all requests to the server at base by rt.
func At(base *url.URL, rt http.RoundTripper) http.RoundTripper { return at{base: *base, rt: rt} }

type at struct {
	base url.URL
	rt   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a at) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host = a.base.Scheme, a.base.Host, ""
	if a.base.Path != "" {
		out.URL.Path = path.Join(a.base.Path, r.URL.Path)
	}
	return a.rt.RoundTrip(out)
}

// CloseIdleConnections drops connections that may hang.
func (a at) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(a.rt) }
