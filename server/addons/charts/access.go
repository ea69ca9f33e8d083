package charts

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/addons/charts/reconcile"
)

// maxConns is how many requests a look has under way.
const maxConns = 32

// access is that of the administrator of a tenant to its space, and to nothing else, for as long as a look may take.
type access struct {
	config    *rest.Config // without credentials
	transport *http.Transport
}

// access makes one of a certificate as tenants' administrators have it. It names the tenant by its UID: whoever has
// the name next is another tenant.
func (t *tenants) access(of *tenantapi.Tenant) (*access, error) {
	ca, err := t.ClientCA()
	if err != nil {
		return nil, fmt.Errorf("reading the CA of clients: %w", err)
	}
	key, keyPEM, err := pki.NewKey()
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	cert, err := ca.WithLife(2*limits().Time).Sign(key.Public(), pki.Leaf{CommonName: Name,
		Organization: []string{space.Organization + of.Name}, Units: []string{space.Masters},
		SerialNumber: string(of.UID), Client: true})
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading a certificate: %w", err)
	}
	return newAccess(inSpace(t.Config, of.Name), pair)
}

// newAccess has the address and the CA of config, and another certificate.
func newAccess(config *rest.Config, pair tls.Certificate) (*access, error) {
	plain := rest.AnonymousClientConfig(config)
	plain.QPS = -1 // the tenant's turns bound it
	trusts, err := rest.TLSConfigFor(plain)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if trusts == nil {
		trusts = &tls.Config{}
	}
	trusts.Certificates = []tls.Certificate{pair}
	// Without HTTP/2, which keeps up to 4 MiB of each answer that nobody reads.
	return &access{config: plain, transport: &http.Transport{TLSClientConfig: trusts, MaxConnsPerHost: maxConns,
		TLSHandshakeTimeout: requestTimeout, IdleConnTimeout: requestTimeout}}, nil
}

// reconciler is what the server itself does about HelmCharts of a tenant: it reads nothing of a chart.
func (a *access) reconciler(ctx context.Context) (*reconcile.Reconciler, error) {
	r := &reconcile.Reconciler{}
	if err := r.Reach(a.config, &http.Client{Transport: a.transport, Timeout: requestTimeout}); err != nil {
		return nil, err
	}
	r.Events = reconcile.DirectEvents(ctx, r.Core)
	return r, nil
}

func (a *access) close() { a.transport.CloseIdleConnections() }
