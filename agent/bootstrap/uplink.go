package bootstrap

import (
	"fmt"
	"net/http"
	"sync/atomic"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
)

// Uplink is the way to the API server of a node that may not have joined yet.
// Until then every request fails with ErrNotConnected.
type Uplink struct {
	to atomic.Pointer[http.RoundTripper]
}

// NewUplink returns an Uplink that leads nowhere.
func NewUplink() *Uplink { return &Uplink{} }

// Connect uses the credential in kubeconfig from now on. wrap, unless it is nil, changes the
// transport.
func (u *Uplink) Connect(kubeconfig string, wrap transport.WrapperFunc) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	config.Wrap(wrap)
	rt, err := rest.TransportFor(config)
	if err != nil {
		return fmt.Errorf("connecting with %s: %w", kubeconfig, err)
	}
	if old := u.to.Swap(&rt); old != nil {
		utilnet.CloseIdleConnectionsFor(*old)
	}
	return nil
}

// Connected reports whether it leads to a server.
func (u *Uplink) Connected() bool { return u.to.Load() != nil }

// RoundTrip implements http.RoundTripper.
func (u *Uplink) RoundTrip(r *http.Request) (*http.Response, error) {
	to := u.to.Load()
	if to == nil {
		if r.Body != nil {
			_ = r.Body.Close() // a transport has to
		}
		return nil, ErrNotConnected
	}
	return (*to).RoundTrip(r)
}

// CloseIdleConnections lets a client get rid of connections that hang.
func (u *Uplink) CloseIdleConnections() {
	if to := u.to.Load(); to != nil {
		utilnet.CloseIdleConnectionsFor(*to)
	}
}
