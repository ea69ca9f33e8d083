package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/a4s-io/a4s/internal/atomicfile"
)

// PEM block types.
const (
	blockCert = "CERTIFICATE"
	blockCSR  = "CERTIFICATE REQUEST"
	blockEC   = "EC PRIVATE KEY"
	blockRSA  = "RSA PRIVATE KEY"
	// blockECParams names the curve of the key after it, which does so too.
	blockECParams = "EC PARAMETERS"
	blockPKCS     = "PRIVATE KEY"
)

// minRSABits is the shortest RSA key that a signing request may carry.
const minRSABits = 2048

// ParseCerts returns all certificates of a PEM bundle. Anything in it that is
// not a certificate is an error, and so is an empty bundle.
func ParseCerts(bundle []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	rest := bundle
	for {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		if b.Type != blockCert {
			return nil, fmt.Errorf("contains a PEM block %q, want only %q", b.Type, blockCert)
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, errors.New("contains no PEM certificate")
	}
	if bytes.Contains(rest, []byte("-----BEGIN")) {
		return nil, errors.New("contains a damaged PEM block")
	}
	return certs, nil
}

// encode returns certificates as a PEM bundle.
func encode(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: blockCert, Bytes: c.Raw})...)
	}
	return out
}

// ParseKey returns the private key in PEM data: EC, RSA or PKCS #8.
func ParseKey(data []byte) (crypto.Signer, error) {
	b, rest := pem.Decode(data)
	if b != nil && b.Type == blockECParams { // openssl writes them first
		b, _ = pem.Decode(rest)
	}
	if b == nil {
		return nil, errors.New("contains no PEM private key")
	}
	switch b.Type {
	case blockEC:
		return x509.ParseECPrivateKey(b.Bytes)
	case blockRSA:
		return x509.ParsePKCS1PrivateKey(b.Bytes)
	case blockPKCS:
		k, err := x509.ParsePKCS8PrivateKey(b.Bytes)
		if err != nil {
			return nil, err
		}
		if s, ok := k.(crypto.Signer); ok {
			return s, nil
		}
		return nil, fmt.Errorf("key of type %T cannot sign", k)
	}
	return nil, fmt.Errorf("contains a PEM block %q, want a private key", b.Type)
}

// NewKey makes a P-256 key and returns it with its PEM form.
func NewKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	data, err := encodeKey(key)
	return key, data, err
}

// encodeKey returns a private key in PEM.
func encodeKey(key crypto.Signer) ([]byte, error) {
	if ec, ok := key.(*ecdsa.PrivateKey); ok {
		der, err := x509.MarshalECPrivateKey(ec)
		if err != nil {
			return nil, err
		}
		return pem.EncodeToMemory(&pem.Block{Type: blockEC, Bytes: der}), nil
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockPKCS, Bytes: der}), nil
}

// EnsureKey returns the private key at path and makes it first if there is no
// such file. The directory must exist.
func EnsureKey(path string) (crypto.Signer, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, data, err := NewKey()
		if err != nil {
			return nil, err
		}
		return key, atomicfile.Write(path, data, 0o600)
	}
	if err != nil {
		return nil, err
	}
	key, err := ParseKey(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// NewCSR returns a PEM signing request that carries nothing but the public
// half of key, and proves that the requester has the other half.
func NewCSR(key crypto.Signer) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockCSR, Bytes: der}), nil
}

// CSRPublicKey checks a PEM signing request and returns its public key. The
// rest of the request is ignored on purpose.
func CSRPublicKey(data []byte) (crypto.PublicKey, error) {
	b, _ := pem.Decode(data)
	if b == nil || b.Type != blockCSR {
		return nil, fmt.Errorf("want one PEM block %q", blockCSR)
	}
	csr, err := x509.ParseCertificateRequest(b.Bytes)
	if err != nil {
		return nil, err
	}
	switch k := csr.PublicKey.(type) {
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P224() {
			return nil, errors.New("EC curve P-224 is too weak, want P-256 or better")
		}
	case *rsa.PublicKey:
		// Large keys are refused too: each check of them is costly.
		if n := k.N.BitLen(); n < minRSABits || n > 4*minRSABits {
			return nil, fmt.Errorf("RSA key of %d bits, want %d to %d", n, minRSABits, 4*minRSABits)
		}
	default:
		return nil, fmt.Errorf("key type %T is not supported, want EC or RSA", csr.PublicKey)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("signature of the request: %w", err)
	}
	return csr.PublicKey, nil
}

// samePublicKey reports whether both are the same public key.
func samePublicKey(a, b crypto.PublicKey) bool {
	eq, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && eq.Equal(b)
}
