package pki

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
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
// SHA-256 of the PEM bytes if the CA is one certificate, of the DER root if it
// is a chain, so that intermediates can change under one root. Every
// certificate must lead to that one root; otherwise somebody could smuggle a
// CA of their own into a bundle whose hash is right.
//
// A bundle may also have the CA before the present one, which comes first, if
// that has signed the present one; the hash is that of the present one. See
// Pinned for what to trust of a bundle that a stranger sent.
func HashBundle(bundle []byte) (string, error) {
	certs, err := ParseCerts(bundle)
	if err != nil {
		return "", fmt.Errorf("CA bundle: %w", err)
	}
	for _, c := range certs {
		if !c.IsCA && len(certs) > 1 {
			return "", fmt.Errorf("CA bundle: certificate %q is not a CA", c.Subject.CommonName)
		}
	}
	if len(certs) == 1 {
		return hexSHA256(bundle), nil
	}
	var main []*x509.Certificate
	left := certs
	for _, root := range certs {
		if !SelfSigned(root) {
			continue
		}
		below := under(root, certs)
		switch {
		case slices.Contains(below, certs[0]):
			main = append(below, root)
		case !slices.ContainsFunc(below, func(c *x509.Certificate) bool {
			return samePublicKey(c.PublicKey, certs[0].PublicKey)
		}):
			return "", fmt.Errorf("CA bundle: contains two roots, and %q has not signed %q", root.Subject.CommonName,
				certs[0].Subject.CommonName)
		}
		left = slices.DeleteFunc(slices.Clone(left), func(c *x509.Certificate) bool {
			return slices.Contains(below, c)
		})
	}
	if main == nil {
		return "", errors.New("CA bundle: is a chain without its root")
	}
	if len(left) > 0 {
		return "", fmt.Errorf("CA bundle: certificate %q does not lead to a root", left[0].Subject.CommonName)
	}
	root := main[len(main)-1]
	if len(main) == 2 { // itself and itself as the root
		return hexSHA256(encode(root)), nil
	}
	return hexSHA256(root.Raw), nil
}

// under returns the certificates that lead to root, which does, too.
func under(root *x509.Certificate, certs []*x509.Certificate) []*x509.Certificate {
	roots, inter := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(root)
	for _, c := range certs {
		if !SelfSigned(c) {
			inter.AddCert(c)
		}
	}
	var out []*x509.Certificate
	for _, c := range certs {
		if SelfSigned(c) && !c.Equal(root) {
			continue
		}
		// Only who signed whom matters here; validity is checked where the
		// bundle is used.
		at := root.NotBefore
		if c.NotBefore.After(at) {
			at = c.NotBefore
		}
		_, err := c.Verify(x509.VerifyOptions{Roots: roots, Intermediates: inter, CurrentTime: at,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		if err == nil && !slices.ContainsFunc(out, c.Equal) {
			out = append(out, c)
		}
	}
	return out
}

// Pinned returns what of a CA bundle is to be trusted because of its hash, see
// HashBundle: the root with that hash and what leads to it. If there is none,
// that is a *HashMismatchError.
func Pinned(bundle []byte, hash string) ([]byte, error) {
	certs, err := ParseCerts(bundle)
	if err != nil {
		return nil, fmt.Errorf("CA bundle: %w", err)
	}
	if len(certs) == 1 && hexSHA256(bundle) == hash {
		return bundle, nil
	}
	for _, root := range certs {
		// The hash may be from a time when the root was alone.
		if SelfSigned(root) && root.IsCA && (hexSHA256(root.Raw) == hash || hexSHA256(encode(root)) == hash) {
			return encode(under(root, certs)...), nil
		}
	}
	got, err := HashBundle(bundle)
	if err != nil {
		return nil, err
	}
	return nil, &HashMismatchError{Want: hash, Got: got}
}

func hexSHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
