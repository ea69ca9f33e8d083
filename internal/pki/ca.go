package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/a4s-io/a4s/internal/problem"
)

// Lifetimes.
const (
	// CALife is how long a CA made here is valid.
	CALife = 10 * 365 * 24 * time.Hour
	// LeafLife is how long a leaf certificate is valid unless told otherwise.
	LeafLife = 365 * 24 * time.Hour
	// RenewBefore is how long before its end a leaf is renewed, but no longer
	// than a third of its life; see RenewAt.
	RenewBefore = 120 * 24 * time.Hour
	// clockSkew is how far a clock that reads a new certificate may lag.
	clockSkew = time.Hour
)

// fixCA is what to do about a CA that cannot be used. Removing it is never a
// fix that is suggested for one file alone.
const fixCA = "restore the file from a backup; only if there is none, stop a4s and remove the whole directory, " +
	"after which a new PKI is made, every node has to join again and existing service-account tokens are invalid"

// CA is a CA that can sign. It is safe for concurrent use.
type CA struct {
	certs []*x509.Certificate // the signing certificate first
	pem   []byte
	key   crypto.Signer
	now   func() time.Time
	life  time.Duration // of what it signs
}

// LoadCA reads a CA. A file that is missing, damaged, expired or does
// not belong to the other one is a *problem.Precondition that names it.
func LoadCA(p Pair) (*CA, error) { return loadCA(p, time.Now) }

func loadCA(p Pair, now func() time.Time) (*CA, error) {
	bad := func(file string, err error) error {
		return &problem.Precondition{What: "certificate authority file " + file, Err: err, Fix: fixCA}
	}
	bundle, err := os.ReadFile(p.Cert)
	if err != nil {
		return nil, bad(p.Cert, err)
	}
	certs, err := ParseCerts(bundle)
	if err != nil {
		return nil, bad(p.Cert, err)
	}
	data, err := os.ReadFile(p.Key)
	if err != nil {
		return nil, bad(p.Key, err)
	}
	key, err := ParseKey(data)
	if err != nil {
		return nil, bad(p.Key, err)
	}
	switch ca := certs[0]; {
	case !ca.IsCA:
		return nil, bad(p.Cert, errors.New("is not a CA certificate"))
	case !samePublicKey(ca.PublicKey, key.Public()):
		return nil, bad(p.Key, fmt.Errorf("does not belong to the certificate %s", p.Cert))
	case now().After(ca.NotAfter):
		return nil, bad(p.Cert, fmt.Errorf("expired on %s", ca.NotAfter.Format(time.RFC3339)))
	}
	return &CA{certs: certs, pem: bundle, key: key, now: now, life: LeafLife}, nil
}

// WithLife returns the same CA that signs certificates for another time than
// LeafLife.
func (a *CA) WithLife(life time.Duration) *CA {
	b := *a
	b.life = life
	return &b
}

// CertPEM returns the CA bundle as its file holds it.
func (a *CA) CertPEM() []byte { return append([]byte(nil), a.pem...) }

// Pool returns the CA bundle as a pool to verify against.
func (a *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range a.certs {
		pool.AddCert(c)
	}
	return pool
}

// Leaf is what a certificate says. Without names it is a client certificate.
type Leaf struct {
	CommonName   string
	Organization []string
	// Units are organizational units: the groups of a tenant's user.
	Units []string
	// SerialNumber is that of the subject, not of the certificate.
	SerialNumber string
	DNSNames     []string
	IPs          []net.IP
	// Client and Server are what the certificate may be used for.
	Client, Server bool
}

// Sign signs pub as leaf and returns PEM: the certificate, followed by the
// intermediate CAs, if there are any.
func (a *CA) Sign(pub crypto.PublicKey, leaf Leaf) ([]byte, error) {
	now := a.now()
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: leaf.CommonName, Organization: leaf.Organization,
			OrganizationalUnit: leaf.Units, SerialNumber: leaf.SerialNumber},
		DNSNames:              leaf.DNSNames,
		IPAddresses:           leaf.IPs,
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(a.life),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}
	if a.certs[0].NotAfter.Before(t.NotAfter) {
		t.NotAfter = a.certs[0].NotAfter // a leaf that outlives its CA lies
	}
	if leaf.Client {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	if leaf.Server {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	der, err := signCert(t, a.certs[0], pub, a.key)
	if err != nil {
		return nil, err
	}
	out := pem.EncodeToMemory(&pem.Block{Type: blockCert, Bytes: der})
	return append(out, encode(a.intermediates()...)...), nil
}

// intermediates are the certificates of the bundle that are not roots. They
// go with each certificate, for those who trust the roots alone.
func (a *CA) intermediates() []*x509.Certificate {
	var out []*x509.Certificate
	for _, c := range a.certs {
		if !SelfSigned(c) {
			out = append(out, c)
		}
	}
	return out
}

// NodeLife is the extra attribute of a user, and the annotation of a Node, that say which life
// of a node a certificate is of.
const NodeLife = "a4s.io/node-life"

// SignNodeClient signs the client certificate of the named node of a partition, "" for the
// home partition, in one of its lives. Without a life the certificate says none.
func (a *CA) SignNodeClient(pub crypto.PublicKey, node, partition, life string) ([]byte, error) {
	groups := []string{GroupNodes}
	if partition != "" && partition != HomePartition {
		groups = append(groups, NodePartitionPrefix+partition)
	}
	return a.Sign(pub, Leaf{CommonName: NodeUserPrefix + node, Organization: groups, SerialNumber: life, Client: true})
}

// SignNodeServing signs the certificate of the kubelet's port on the named
// node, valid for its name and addresses.
func (a *CA) SignNodeServing(pub crypto.PublicKey, node string, ips []net.IP) ([]byte, error) {
	return a.Sign(pub, Leaf{CommonName: NodeUserPrefix + node, Organization: []string{GroupNodes},
		DNSNames: []string{node}, IPs: ips, Server: true})
}

// VerifyClient checks the chain that a TLS client presented, the leaf first,
// against the CA and returns the leaf.
func (a *CA) VerifyClient(chain []*x509.Certificate) (*x509.Certificate, error) {
	if len(chain) == 0 {
		return nil, errors.New("no client certificate")
	}
	inter := x509.NewCertPool()
	for _, c := range chain[1:] {
		inter.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         a.Pool(),
		Intermediates: inter,
		CurrentTime:   a.now(),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, err
	}
	return chain[0], nil
}

// SelfSigned reports whether c is a root: signed with its own key.
func SelfSigned(c *x509.Certificate) bool {
	return c.CheckSignatureFrom(c) == nil
}

// makeCA makes a self-signed CA.
func makeCA(name string, now time.Time) (*CA, error) {
	certPEM, keyPEM, err := newCA(name, now)
	if err != nil {
		return nil, err
	}
	certs, err := ParseCerts(certPEM)
	if err != nil {
		return nil, err
	}
	key, err := ParseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	return &CA{certs: certs, pem: certPEM, key: key, now: func() time.Time { return now }, life: LeafLife}, nil
}

// newCA makes a self-signed CA and returns it and its key in PEM.
func newCA(name string, now time.Time) (certPEM, keyPEM []byte, err error) {
	key, keyPEM, err := NewKey()
	if err != nil {
		return nil, nil, err
	}
	t := &x509.Certificate{
		// The time tells this CA from its namesake in another cluster.
		Subject:               pkix.Name{CommonName: fmt.Sprintf("a4s-%s@%d", name, now.Unix())},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(CALife),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := signCert(t, t, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockCert, Bytes: der}), keyPEM, nil
}

func signCert(t, parent *x509.Certificate, pub crypto.PublicKey, key crypto.Signer) ([]byte, error) {
	// 127 bits, so that the number is positive; never zero in practice.
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	t.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, t, parent, pub, key)
}
