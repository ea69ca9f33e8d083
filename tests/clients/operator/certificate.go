package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// service is where the webhooks are reached.
	service = "widgets.widget-system.svc"
	// The objects whose caBundle is set.
	configuration = "widgets.example.com"
	definition    = "widgets.example.com"
)

// secure makes a certificate for the webhooks and tells those who are to trust
// it: the webhook configurations and the definition of the second release.
func secure(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme, conversion bool) error {
	bundle, err := writeCertificate()
	if err != nil {
		return err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{},
		&admissionregistrationv1.ValidatingWebhookConfiguration{}
	err = errors.Join(
		trust(ctx, c, configuration, mutating, func() {
			for i := range mutating.Webhooks {
				mutating.Webhooks[i].ClientConfig.CABundle = bundle
			}
		}),
		trust(ctx, c, configuration, validating, func() {
			for i := range validating.Webhooks {
				validating.Webhooks[i].ClientConfig.CABundle = bundle
			}
		}),
	)
	if err != nil || !conversion {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	return trust(ctx, c, definition, crd, func() { crd.Spec.Conversion.Webhook.ClientConfig.CABundle = bundle })
}

// trust changes an object, again if another did so meanwhile.
func trust(ctx context.Context, c client.Client, name string, obj client.Object, set func()) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := c.Get(ctx, types.NamespacedName{Name: name}, obj); err != nil {
			return err
		}
		set()
		return c.Update(ctx, obj)
	})
	if err != nil {
		return fmt.Errorf("setting the caBundle in %T: %w", obj, err)
	}
	return nil
}

func writeCertificate() (bundle []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: service},
		DNSNames:  []string{service},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, content := range map[string][]byte{
		"tls.crt": bundle,
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	} {
		if err := os.WriteFile(filepath.Join(certificates, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	return bundle, nil
}
