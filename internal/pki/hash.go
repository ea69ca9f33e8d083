package pki

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// HashMismatchError says that a CA bundle is not the expected one.
type HashMismatchError struct {
	// Want is the expected hash, Got that of the bundle, both in hex.
	Want, Got string
}

func (e *HashMismatchError) Error() string {
	return fmt.Sprintf("the CA bundle has hash %s, expected %s", e.Got, e.Want)
}

// HashBundle returns the hash by which a join token pins a CA bundle, in hex:
// SHA-256 of the PEM bytes if the bundle is one certificate, of the DER root
// if it is a chain, so that intermediates can change under one root. Every
// certificate of a chain must lead to that one root; otherwise somebody could
// smuggle a CA of his own into a bundle whose hash is right.
func HashBundle(bundle []byte) (string, error) {
	certs, err := ParseCerts(bundle)
	if err != nil {
		return "", fmt.Errorf("CA bundle: %w", err)
	}
	if len(certs) == 1 {
		return hexSHA256(bundle), nil
	}
	var root *x509.Certificate
	var youngest time.Time
	inter := x509.NewCertPool()
	for _, c := range certs {
		if c.NotBefore.After(youngest) {
			youngest = c.NotBefore
		}
		switch {
		case !c.IsCA:
			return "", fmt.Errorf("CA bundle: certificate %q is not a CA", c.Subject.CommonName)
		case !SelfSigned(c):
			inter.AddCert(c)
		case root == nil || root.Equal(c):
			root = c
		default:
			return "", errors.New("CA bundle: contains two roots")
		}
	}
	if root == nil {
		return "", errors.New("CA bundle: is a chain without its root")
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	for _, c := range certs {
		opts := x509.VerifyOptions{
			Roots: roots, Intermediates: inter,
			// Only who signed whom matters here; validity is checked
			// where the bundle is used.
			CurrentTime: youngest,
			KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		}
		if _, err := c.Verify(opts); err != nil {
			return "", fmt.Errorf("CA bundle: certificate %q does not lead to the root: %w", c.Subject.CommonName, err)
		}
	}
	return hexSHA256(root.Raw), nil
}

// VerifyBundle checks that hash is the hash of the CA bundle, see HashBundle.
// Another hash is a *HashMismatchError.
func VerifyBundle(bundle []byte, hash string) error {
	got, err := HashBundle(bundle)
	if err != nil {
		return err
	}
	if got != hash {
		return &HashMismatchError{Want: hash, Got: got}
	}
	return nil
}

func hexSHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
