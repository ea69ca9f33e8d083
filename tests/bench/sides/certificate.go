package sides

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"time"

	"k8s.io/client-go/rest"
)

// Signer signs certificates of clients as the administrator of a side could.
type Signer struct {
	url    string
	ca     []byte // of servers, in PEM
	issuer tls.Certificate
}

// Signer returns that of the side, once it has its CAs.
func (s *Side) Signer() (*Signer, error) {
	issuer, err := tls.LoadX509KeyPair(s.TLS.ClientCA.Cert, s.TLS.ClientCA.Key)
	if err != nil {
		return nil, fmt.Errorf("loading the CA of clients: %w", err)
	}
	ca, err := os.ReadFile(s.TLS.ServerCA.Cert)
	if err != nil {
		return nil, fmt.Errorf("loading the CA of servers: %w", err)
	}
	return &Signer{url: s.Config.Host, ca: ca, issuer: issuer}, nil
}

// User returns the access of a user in some groups.
func (s *Signer) User(name string, groups ...string) (*rest.Config, error) {
	return s.Client(pkix.Name{CommonName: name, Organization: groups})
}

// Client returns the access of a new certificate with this subject. Clients of
// two certificates have two connections.
func (s *Signer) Client(subject pkix.Name) (*rest.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, s.issuer.Leaf, key.Public(), s.issuer.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of %s: %w", subject.CommonName, err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &rest.Config{Host: s.url, QPS: -1, TLSClientConfig: rest.TLSClientConfig{
		CAData:   s.ca,
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyData:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
	}}, nil
}
