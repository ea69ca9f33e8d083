package authn

import (
	"crypto/x509"
	"net/http"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/a4s-io/a4s/internal/space"
)

const (
	// verifiedFor is how long a certificate is believed without being verified
	// again, as long as upstream believes a token.
	verifiedFor = 10 * time.Second
	// verifiedMost is how many certificates.
	verifiedMost = 1024
	// frontProxy begins the headers in which a front proxy says for whom it asks.
	frontProxy = "X-Remote-"
)

// verified remembers whom a certificate is of: to verify it
// for every request, as upstream does, is a good part of a small request. Only
// certificates of tenants are remembered. No front proxy has one, so what it
// says of others in headers cannot be missed.
type verified struct {
	clock clock.PassiveClock
	// users is by the parsed certificate of connections, whose other ends have
	// shown at the handshake that they have its key.
	users *lru.Cache
}

type verifiedUser struct {
	response authenticator.Response
	until    time.Time
}

func newVerified() *verified {
	return &verified{clock: clock.RealClock{}, users: lru.New(verifiedMost)}
}

// peer is the certificate that the connection of a request began with, nil if
// it does not decide alone who asks.
func peer(req *http.Request) *x509.Certificate {
	if req.TLS == nil || len(req.TLS.PeerCertificates) == 0 {
		return nil
	}
	for name := range req.Header {
		if strings.HasPrefix(name, frontProxy) {
			return nil
		}
	}
	return req.TLS.PeerCertificates[0]
}

// user is the remembered answer to a request, nil for none.
func (v *verified) user(req *http.Request) *authenticator.Response {
	cert := peer(req)
	if cert == nil {
		return nil
	}
	found, ok := v.users.Get(cert)
	if !ok {
		return nil
	}
	u, now := found.(*verifiedUser), v.clock.Now() //nolint:errcheck // nothing else is in it
	if now.After(u.until) || now.After(cert.NotAfter) {
		v.users.Remove(cert)
		return nil
	}
	response := u.response
	return &response
}

// remember keeps the answer to a request if its certificate gave it.
func (v *verified) remember(req *http.Request, response *authenticator.Response) {
	cert := peer(req)
	if cert == nil || certificateOf(req, response.User) != cert || space.IsSystem(space.TenantOf(response.User)) {
		return
	}
	v.users.Add(cert, &verifiedUser{response: *response, until: v.clock.Now().Add(verifiedFor)})
}
