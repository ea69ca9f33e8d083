package nodeidentity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
)

// kubeletRequest is what a kubelet sends, approved.
func kubeletRequest(t *testing.T, name string, subject pkix.Name) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		t.Fatal(err)
	}
	seconds := int32(3600)
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, ExpirationSeconds: &seconds,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
		Status: certificatesv1.CertificateSigningRequestStatus{
			Conditions: []certificatesv1.CertificateSigningRequestCondition{
				{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}},
	}
}

// TestSigner: the group of the partition is in what it signs, whatever is asked for, and
// what asks for more gets nothing.
func TestSigner(t *testing.T) {
	files, err := pki.Ensure(filepath.Join(t.TempDir(), "tls"), pki.Options{SANs: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.LoadCA(files.ClientCA)
	if err != nil {
		t.Fatal(err)
	}
	node := pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}
	greedy, nameless, open := node, node, kubeletRequest(t, "open", node)
	greedy.Organization = []string{"system:nodes", "system:a4s:nodes-of:rp1"}
	nameless.CommonName = "system:node:"
	open.Status.Conditions = nil
	other := kubeletRequest(t, "other", node)
	other.Spec.SignerName = certificatesv1.KubeAPIServerClientSignerName
	client := fake.NewClientset(kubeletRequest(t, "good", node), kubeletRequest(t, "greedy", greedy),
		kubeletRequest(t, "nameless", nameless), open, other)
	log := logrus.New()
	log.SetOutput(io.Discard)
	group := component.NewGroup(logrus.NewEntry(log))
	defer func() {
		if err := group.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := group.StartAndWait(t.Context(), Signer(SignerOptions{Partition: "rp2", Client: client, CA: ca,
		Life: 24 * time.Hour, Log: logrus.NewEntry(log)})); err != nil {
		t.Fatal(err)
	}
	get := func(name string) *certificatesv1.CertificateSigningRequest {
		t.Helper()
		csr, err := client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return csr
	}
	decided := func(name string) *certificatesv1.CertificateSigningRequest {
		for {
			if csr := get(name); len(csr.Status.Certificate) > 0 || len(csr.Status.Conditions) > 1 {
				return csr
			}
			if err := component.Sleep(t.Context(), 10*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	certs, err := pki.ParseCerts(decided("good").Status.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	got := certs[0]
	of, err := PartitionOf(got.Subject.Organization)
	if err != nil || of != "rp2" || got.Subject.CommonName != "system:node:n1" ||
		!slices.Contains(got.Subject.Organization, "system:nodes") || time.Until(got.NotAfter) > time.Hour ||
		len(got.ExtKeyUsage) != 1 || got.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth {
		t.Errorf("%v, %v, until %v, for %v", got.Subject, err, got.NotAfter, got.ExtKeyUsage)
	}
	for _, name := range []string{"greedy", "nameless"} {
		if csr := decided(name); len(csr.Status.Certificate) > 0 ||
			csr.Status.Conditions[1].Type != certificatesv1.CertificateFailed {
			t.Errorf("%s: %+v", name, csr.Status)
		}
	}
	for _, name := range []string{"open", "other"} {
		if csr := get(name); len(csr.Status.Certificate) > 0 || len(csr.Status.Conditions) > 1 {
			t.Errorf("%s: %+v", name, csr.Status)
		}
	}
}
