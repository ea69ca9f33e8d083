package charts

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestAccessIsOfOneTenant: what a chart of a tenant is applied with is good for the Tenant with that UID, in its
// space.
func TestAccessIsOfOneTenant(t *testing.T) {
	files, err := pki.Ensure(t.TempDir(), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tenants := &tenants{Options: Options{Config: &rest.Config{Host: "https://127.0.0.1:6443", BearerToken: "all"},
		ClientCA: func() (*pki.CA, error) { return pki.LoadCA(files.ClientCA) }}}
	a, err := tenants.access(&tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t1", UID: "of-t1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	if a.config.Host != "https://127.0.0.1:6443/tenants/t1" || a.config.BearerToken != "" {
		t.Errorf("%s with the token %q", a.config.Host, a.config.BearerToken)
	}
	leaf := a.transport.TLSClientConfig.Certificates[0].Leaf
	if subject := leaf.Subject; subject.SerialNumber != "of-t1" || subject.CommonName != Name ||
		!slices.Equal(subject.Organization, []string{"tenant:t1"}) ||
		!slices.Equal(subject.OrganizationalUnit, []string{"system:masters"}) {
		t.Errorf("the certificate is that of %s", subject)
	}
}
