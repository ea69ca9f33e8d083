package authn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/group"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// authority signs client certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newCA(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client-ca"}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func (a *authority) issue(t *testing.T, subject pkix.Name) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: subject, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestClientCertificates(t *testing.T) {
	ca := newCA(t)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	verify := x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	upstream := group.NewAuthenticatedGroupAdder(x509request.New(verify, x509request.CommonNameUserConversion))
	a := Wrap(upstream, Options{DefaultTenant: "fallback"})

	for name, c := range map[string]struct {
		subject pkix.Name
		tenant  string // "" when refused
		user    string
		groups  []string
	}{
		"cluster": {
			pkix.Name{CommonName: "admin", Organization: []string{"system:masters"},
				OrganizationalUnit: []string{"ignored"}},
			"system", "admin", []string{"system:masters"},
		},
		"component of the cluster": {pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}},
			"system", "system:node:n1", []string{"system:nodes"}},
		"new form": {
			pkix.Name{CommonName: "alice", Organization: []string{"tenant:t1"},
				OrganizationalUnit: []string{"devs", "system:masters"}},
			"t1", "alice", []string{"devs", "system:masters.t1"},
		},
		"new form, masters of another": {pkix.Name{CommonName: "alice", Organization: []string{"tenant:t1"},
			OrganizationalUnit: []string{"system:masters.t2"}}, "", "", nil},
		"new form, name like a component": {pkix.Name{CommonName: "system:kube-scheduler",
			Organization: []string{"tenant:t1"}}, "t1", "system:kube-scheduler", nil},
		"new form, service account": {
			pkix.Name{CommonName: "system:serviceaccount:default:web", Organization: []string{"tenant:t1"},
				OrganizationalUnit: []string{"system:serviceaccounts:default"}},
			"t1", "system:serviceaccount:default.t1:web", []string{"system:serviceaccounts:default.t1"},
		},
		"new form, service account of another": {pkix.Name{CommonName: "system:serviceaccount:default.t2:web",
			Organization: []string{"tenant:t1"}}, "", "", nil},
		"new form, same twice": {pkix.Name{CommonName: "alice", Organization: []string{"tenant:t1", "tenant:t1"}},
			"t1", "alice", nil},
		"new form, system": {pkix.Name{CommonName: "ops", Organization: []string{"tenant:system"},
			OrganizationalUnit: []string{"ops"}}, "system", "ops", []string{"ops"}},
		"new form, the system's admin": {pkix.Name{CommonName: "admin", Organization: []string{"tenant:system"}},
			"system", "admin", []string{"a4s:cluster-admins"}},
		"new form, a tenant's admin": {pkix.Name{CommonName: "admin", Organization: []string{"tenant:t1"}},
			"t1", "admin", nil},
		"old form, a user called admin": {pkix.Name{CommonName: "admin"}, "system", "admin", nil},
		"new form, masters of the system": {pkix.Name{CommonName: "ops", Organization: []string{"tenant:system"},
			OrganizationalUnit: []string{"system:masters"}}, "", "", nil},
		"two tenants": {pkix.Name{CommonName: "alice",
			Organization: []string{"tenant:t1", "tenant:t2"}}, "", "", nil},
		"two tenants in two places": {pkix.Name{CommonName: "tenant:t2:alice", Organization: []string{"tenant:t1"}},
			"", "", nil},
		"tenant and other organization": {pkix.Name{CommonName: "alice",
			Organization: []string{"system:masters", "tenant:t1"}}, "", "", nil},
		"tenant as a group": {pkix.Name{CommonName: "alice", Organization: []string{"tenant:t1"},
			OrganizationalUnit: []string{"tenant:t2"}}, "", "", nil},
		"invalid tenant": {pkix.Name{CommonName: "alice", Organization: []string{"tenant:T_1"}},
			"", "", nil},
		"empty tenant": {pkix.Name{CommonName: "alice", Organization: []string{"tenant:"}},
			"", "", nil},
		"all tenants": {pkix.Name{CommonName: "alice", Organization: []string{"tenant:all"}},
			"", "", nil},
		"old form": {pkix.Name{CommonName: "t1:alice", Organization: []string{"system:masters", "devs"}}, "t1",
			"t1:alice", []string{"devs", "system:masters.t1"}},
		"old form, marked": {pkix.Name{CommonName: "tenant:t1", Organization: []string{"devs"}}, "t1",
			"tenant:t1", []string{"devs"}},
		"old form, marked with user": {pkix.Name{CommonName: "tenant:t1:bob"}, "t1", "tenant:t1:bob", nil},
		"old form, invalid tenant": {pkix.Name{CommonName: "T1:alice", Organization: []string{"system:masters"}},
			"", "", nil},
		"old form, no tenant": {pkix.Name{CommonName: ":alice", Organization: []string{"system:masters"}},
			"", "", nil},
		"old form, no user": {pkix.Name{CommonName: "t1:",
			Organization: []string{"system:masters"}}, "", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			req := &http.Request{Header: http.Header{},
				TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{ca.issue(t, c.subject)}}}
			response, ok, err := a.AuthenticateRequest(req)
			if c.tenant == "" {
				if ok || !errors.Is(err, ErrTenant) {
					t.Fatalf("got %v, %v, %v, want a refusal", response, ok, err)
				}
				return
			}
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			u := response.User
			groups := slices.Sorted(slices.Values(u.GetGroups()))
			want := slices.Sorted(slices.Values(append(slices.Clone(c.groups), user.AllAuthenticated)))
			if u.GetName() != c.user || !slices.Equal(groups, want) || space.TenantOf(u) != c.tenant {
				t.Errorf("got %q of %s in %q, want %q of %s in %q", u.GetName(), space.TenantOf(u), groups,
					c.user, c.tenant, want)
			}
			extra, marked := u.GetExtra()[space.Extra]
			if marked != (c.tenant != space.System) || (marked && !slices.Equal(extra, []string{c.tenant})) {
				t.Errorf("the extra attribute is %q", extra)
			}
			if len(u.GetExtra()[user.CredentialIDKey]) != 1 {
				t.Error("the credential ID is lost")
			}
		})
	}

	t.Run("a token beside the certificate decides", func(t *testing.T) {
		cert := ca.issue(t, pkix.Name{CommonName: "alice", Organization: []string{"tenant:t1"}})
		a := Wrap(fixed(&user.DefaultInfo{Name: "system:serviceaccount:default.t2:web"}), Options{})
		response, ok, err := a.AuthenticateRequest(&http.Request{
			TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}},
		})
		if err != nil || !ok || space.TenantOf(response.User) != "t2" {
			t.Errorf("got %v, %v, %v", response, ok, err)
		}
	})

	t.Run("seen by something that knows no tenants", func(t *testing.T) {
		for _, c := range []struct {
			subject  pkix.Name
			ofTenant bool
		}{
			{pkix.Name{CommonName: "system:kube-apiserver", Organization: []string{"tenant:t1"}}, true},
			{pkix.Name{CommonName: "t1:alice", Organization: []string{"system:masters"}}, true},
			{pkix.Name{CommonName: "system:kube-apiserver"}, false},
			{pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}, false},
		} {
			req := &http.Request{
				TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{ca.issue(t, c.subject)}},
			}
			response, _, err := upstream.AuthenticateRequest(req.WithContext(context.Background()))
			if err != nil {
				t.Fatal(err)
			}
			if got := OfTenantElsewhere(response.User); got != c.ofTenant {
				t.Errorf("%v: got %v", c.subject, got)
			}
		}
	})
}

type lives map[string]*tenantapi.Tenant

func (l lives) Get(_ context.Context, name string) (*tenantapi.Tenant, error) { return l[name], nil }

// TestCertificatesOfFormerTenants: a certificate is good for the tenant that it
// was issued for, not for the next one of its name.
func TestCertificatesOfFormerTenants(t *testing.T) {
	ca := newCA(t)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	tenants := lives{}
	a := Wrap(x509request.New(x509.VerifyOptions{
		Roots:     pool,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, x509request.CommonNameUserConversion), Options{Tenants: tenants})
	of := func(uid string) *x509.Certificate {
		return ca.issue(t, pkix.Name{CommonName: "alice", Organization: []string{"tenant:t1"}, SerialNumber: uid})
	}
	made := func(uid types.UID, ago time.Duration) *tenantapi.Tenant {
		return &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t1", UID: uid,
			CreationTimestamp: metav1.NewTime(time.Now().Add(-ago))}}
	}
	first, second, none := of("1"), of("2"), of("") // an hour old
	old := ca.issue(t, pkix.Name{CommonName: "tenant:t1:bob"})
	for _, c := range []struct {
		what   string
		tenant *tenantapi.Tenant
		good   []*x509.Certificate
	}{
		{"the first tenant", made("1", 2*time.Hour), []*x509.Certificate{first, none, old}},
		{"the second, made meanwhile", made("2", time.Minute), []*x509.Certificate{second}},
		{"the second, when its certificate was issued", made("2", time.Hour-time.Minute),
			[]*x509.Certificate{second, none, old}},
		{"a third", made("3", 0), nil},
		{"none", nil, nil},
		{"the first again, as from a backup", made("1", 2*time.Hour), []*x509.Certificate{first, none, old}},
	} {
		if delete(tenants, "t1"); c.tenant != nil {
			tenants["t1"] = c.tenant
		}
		for i, cert := range []*x509.Certificate{first, second, none, old} {
			req := &http.Request{Header: http.Header{},
				TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}}
			if _, ok, _ := a.AuthenticateRequest(req); ok != slices.Contains(c.good, cert) {
				t.Errorf("%s: certificate %d: %t", c.what, i, ok)
			}
			early, _, ok, _ := Early(a, req, "")
			uid, err := Life(early.Context())
			switch {
			case c.tenant == nil && (!ok || !errors.Is(err, ErrAbsent)):
				t.Errorf("%s: certificate %d, for the edge: %t, %v", c.what, i, ok, err)
			case c.tenant != nil && (ok != slices.Contains(c.good, cert) || ok && uid != c.tenant.UID):
				t.Errorf("%s: certificate %d, for the edge: %t, %q", c.what, i, ok, uid)
			}
		}
	}
}
