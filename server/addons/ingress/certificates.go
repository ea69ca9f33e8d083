package ingress

import (
	"crypto/rsa"
	"crypto/tls"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/space"
)

const (
	// mostChain and mostKey are how long a certificate and its key are at most, in PEM.
	mostChain = 64 << 10
	mostKey   = 8 << 10
	// mostRSA is how many bits an RSA key has at most: a connection with a longer one takes the node's
	// processors from everybody else.
	mostRSA = 4096
)

// parsed is what a Secret has: a certificate, or why that is of no use. Reading one takes a millisecond.
type parsed struct {
	secret      *corev1.Secret
	certificate *joinapi.IngressCertificate
	why         string
}

// parsedOf reads a Secret, which may be nil.
func parsedOf(secret *corev1.Secret) parsed {
	if secret == nil {
		return parsed{why: fmt.Sprintf("there is none of type %s", corev1.SecretTypeTLS)}
	}
	certificate, err := certificateOf(secret)
	if err != nil {
		return parsed{secret: secret, why: err.Error()}
	}
	return parsed{secret: secret, certificate: certificate}
}

// certificateOf reads a certificate from a Secret.
func certificateOf(secret *corev1.Secret) (*joinapi.IngressCertificate, error) {
	chain, key := secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]
	switch {
	case len(chain) == 0 || len(key) == 0:
		return nil, fmt.Errorf("it needs %s and %s", corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	case len(chain) > mostChain:
		return nil, fmt.Errorf("%s has more than %d bytes", corev1.TLSCertKey, mostChain)
	case len(key) > mostKey:
		return nil, fmt.Errorf("%s has more than %d bytes", corev1.TLSPrivateKeyKey, mostKey)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, errors.New("it has no certificate with its key, both in PEM") // err may quote the key
	}
	if k, ok := pair.Leaf.PublicKey.(*rsa.PublicKey); ok && k.N.BitLen() > mostRSA {
		return nil, fmt.Errorf("its RSA key has %d bits, %d is the most", k.N.BitLen(), mostRSA)
	}
	return &joinapi.IngressCertificate{ID: secret.Namespace + "/" + secret.Name,
		Tenant: space.OfNamespace(secret.Namespace), Chain: chain, Key: key}, nil
}
