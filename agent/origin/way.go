package origin

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"sync/atomic"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// ErrNotConnected says that this node has no server to talk to yet.
var ErrNotConnected = errors.New("this node has not joined a server yet")

// Way leads to the servers of a partition, wherever the URL of a request points. Clients have it
// before the servers are known, and keep it when it turns out that they are elsewhere. The zero
// value leads nowhere: every request fails with ErrNotConnected.
type Way struct{ to atomic.Pointer[target] }

// target is where a way leads.
type target struct {
	base url.URL
	rt   http.RoundTripper
}

// At returns a way that leads to the server at base by rt.
func At(base *url.URL, rt http.RoundTripper) *Way {
	w := &Way{}
	w.Lead(base, rt)
	return w
}

// Lead makes the way lead to the server at base by rt from now on.
func (w *Way) Lead(base *url.URL, rt http.RoundTripper) { w.to.Store(&target{*base, rt}) }

// Follow makes the way lead where another one leads now.
func (w *Way) Follow(other *Way) { w.to.Store(other.to.Load()) }

// Connected reports whether the way leads to a server.
func (w *Way) Connected() bool { return w.to.Load() != nil }

// RoundTrip implements http.RoundTripper.
func (w *Way) RoundTrip(r *http.Request) (*http.Response, error) {
	to := w.to.Load()
	if to == nil {
		if r.Body != nil {
			_ = r.Body.Close() // a transport has to
		}
		return nil, ErrNotConnected
	}
	if r.URL.Scheme == to.base.Scheme && r.URL.Host == to.base.Host && to.base.Path == "" {
		return to.rt.RoundTrip(r)
	}
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host = to.base.Scheme, to.base.Host, ""
	if to.base.Path != "" {
		out.URL.Path = path.Join(to.base.Path, r.URL.Path)
	}
	return to.rt.RoundTrip(out)
}

// CloseIdleConnections drops connections that may hang.
func (w *Way) CloseIdleConnections() {
	if to := w.to.Load(); to != nil {
		utilnet.CloseIdleConnectionsFor(to.rt)
	}
}
