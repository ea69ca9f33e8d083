package proxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net/http"
	"time"
)

const (
	// selfSignedName is what clients see that asked for no host that has a certificate.
	selfSignedName = "a4s ingress default certificate"
	// selfSignedYears is longer than any process runs.
	selfSignedYears = 10
)

// selfSigned makes the certificate of hosts that have none.
func selfSigned(now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of the default certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("number of the default certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: selfSignedName},
		NotBefore:    now.Add(-time.Hour), // clocks differ
		NotAfter:     now.AddDate(selfSignedYears, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("default certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// certificateFor returns the certificate of the host that a client named, or nil.
func (s *snapshot) certificateFor(serverName string) *tls.Certificate {
	var first *host
	for h := range s.named(hostName(serverName)) {
		if first == nil {
			first = h
		}
		// A host without a certificate has that of the next wider one, if both are of one tenant.
		if h.certificate == "" || h.tenant != first.tenant {
			continue
		}
		if c := s.certificates[h.certificate]; c != nil && c.tenant == h.tenant.name {
			return c.parsed
		}
		return nil
	}
	return nil
}

func (p *proxy) tlsConfig(requests context.Context, fallback *tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// It is called when the first message of a client is read, and before anything of it is judged.
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			return nil, p.passOn(requests, hello)
		},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if c := p.tables.shown.Load().certificateFor(hello.ServerName); c != nil {
				return c, nil
			}
			return fallback, nil
		},
	}
}

// misdirected reports whether a request came by a connection that was made for a host of another
// tenant. Clients with HTTP/2 use a connection for all hosts that its certificate has, and a
// wildcard may have hosts of others. A client that named no host, or none that there is, saw the
// certificate of no tenant's name, and may ask for any.
func misdirected(s *snapshot, r *http.Request, h *host) bool {
	if r.TLS == nil || r.TLS.ServerName == "" {
		return false
	}
	for named := range s.named(hostName(r.TLS.ServerName)) {
		return named.tenant != h.tenant
	}
	return false
}
