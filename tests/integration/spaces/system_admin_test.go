package spaces_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/http"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/tests/nstest"
)

// TestTheSystemSpaceHasAnAdmin: a certificate CN=admin, O=tenant:system is the
// administrator of the cluster, as that of a tenant is of its space. Nobody else
// is by the name alone, the signer makes no such certificate, and the binding can
// be taken away.
func TestTheSystemSpaceHasAnAdmin(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	nodes := func(cfg *rest.Config) int {
		code, _ := get(t, cfg, "/api/v1/nodes")
		return code
	}
	admin := p.user(t, "admin", []string{"tenant:system"}, nil)
	eventually(t, "the administrator of the system space can list nodes", func(context.Context) (bool, error) {
		return nodes(admin) == http.StatusOK, nil
	})
	for what, cfg := range map[string]*rest.Config{
		"another user of that form":   p.user(t, "alice", []string{"tenant:system"}, nil),
		"that name without a tenant":  p.user(t, "admin", nil, nil),
		"that name in another group":  p.user(t, "admin", []string{"tenants"}, nil),
		"the old form of that tenant": p.user(t, "tenant:system:admin", nil, nil),
	} {
		if code := nodes(cfg); code != http.StatusForbidden {
			t.Errorf("%s: %d", what, code)
		}
	}
	impersonating := rest.CopyConfig(p.Admin)
	impersonating.Impersonate = rest.ImpersonationConfig{UserName: "admin"}
	if code := nodes(impersonating); code != http.StatusForbidden {
		t.Errorf("a user of that name who has no certificate: %d", code)
	}

	// Who has certificates signed does not become one.
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		subject pkix.Name
		refused bool
	}{
		"admin": {pkix.Name{CommonName: "admin", Organization: []string{"tenant:system"}}, true},
		"group": {pkix.Name{CommonName: "alice", Organization: []string{"a4s:cluster-admins"}}, true},
		"unit": {pkix.Name{CommonName: "alice", Organization: []string{"tenant:system"},
			OrganizationalUnit: []string{"a4s:cluster-admins"}}, true},
		"tenant": {pkix.Name{CommonName: "admin", Organization: []string{"tenant:a"}}, false},
		"alice":  {pkix.Name{CommonName: "alice", Organization: []string{"tenant:system"}}, false},
	} {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: c.subject}, key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.admin.CertificatesV1().CertificateSigningRequests().Create(t.Context(),
			&certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: certificatesv1.CertificateSigningRequestSpec{
					Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
					SignerName: certificatesv1.KubeAPIServerClientSignerName,
					Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
				},
			}, metav1.CreateOptions{})
		if c.refused && !apierrors.IsForbidden(err) || !c.refused && err != nil {
			t.Errorf("signing %s: %v", name, err)
		}
	}

	if err := p.admin.RbacV1().ClusterRoleBindings().Delete(t.Context(), "admin-role-binding",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "without the binding there is none", func(context.Context) (bool, error) {
		return nodes(admin) == http.StatusForbidden, nil
	})
}
