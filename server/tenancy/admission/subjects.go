package admission

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/certificates"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
)

// subjects is upstream's plugin that keeps who may have certificates signed from
// becoming system:masters by one; the same goes for the administrator that the
// system space has from its beginning.
type subjects struct{ admission.Interface }

// Validate implements admission.ValidationInterface.
func (s subjects) Validate(ctx context.Context, attr admission.Attributes, o admission.ObjectInterfaces) error {
	if v, ok := s.Interface.(admission.ValidationInterface); ok {
		if err := v.Validate(ctx, attr, o); err != nil {
			return err
		}
	}
	csr, ok := attr.GetObject().(*certificates.CertificateSigningRequest)
	if !ok || attr.GetSubresource() != "" || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	parsed, err := certificates.ParseCSR(csr.Spec.Request)
	if err != nil {
		return nil // upstream refuses it
	}
	who, err := authn.FromCertificate(&x509.Certificate{Subject: parsed.Subject})
	if err != nil {
		return nil // so does whoever is shown the certificate
	}
	if space.IsSystem(who.Tenant) && slices.Contains(who.Groups, space.Admins) {
		return admission.NewForbidden(attr, fmt.Errorf("the signer %s makes no administrator of the cluster: "+
			"the subject is one of the group %s", csr.Spec.SignerName, space.Admins))
	}
	return nil
}
