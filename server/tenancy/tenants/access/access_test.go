package access

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/directory"
)

func newAccess() *tenantapi.TenantAccess {
	n := int64(3600)
	return &tenantapi.TenantAccess{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u"},
		Spec: tenantapi.TenantAccessSpec{Tenant: "team-a", User: "argocd", Groups: []string{"b", "a"}, Role: "edit",
			ExpirationSeconds: &n, Secret: tenantapi.AccessSecret{Namespace: "argocd", Name: "team-a"}}}
}

func newCA(t *testing.T) *pki.CA {
	t.Helper()
	files, err := pki.Ensure(t.TempDir(), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.LoadCA(files.ClientCA)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// TestRenewal: credentials are renewed when a third of the life is left that they were given, not
// twice in a minute, and end with the access.
func TestRenewal(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	in := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(d)} }
	for name, tc := range map[string]struct {
		expires *metav1.Time
		begin   time.Duration // of the credentials
		end     time.Duration
		in      bool
		renewal time.Duration
		ended   bool
	}{
		"new":                    {nil, 0, time.Hour, true, 40 * time.Minute, false},
		"a third is left":        {nil, -40 * time.Minute, 20 * time.Minute, false, 0, false},
		"nearly":                 {nil, -2399 * time.Second, 1201 * time.Second, true, time.Second, false},
		"over":                   {nil, -time.Hour, -time.Second, false, -1200667 * time.Millisecond, false},
		"shortened":              {nil, 0, 15 * time.Minute, true, 10 * time.Minute, false},
		"shortened, and due":     {nil, -10 * time.Minute, 5 * time.Minute, false, 0, false},
		"hardly any life":        {nil, 0, 75 * time.Second, true, time.Minute, false},
		"no life":                {nil, 0, 6 * time.Second, true, 6 * time.Second, false},
		"longer than it says":    {nil, 0, 2 * time.Hour, false, 80 * time.Minute, false},
		"ends with it":           {in(10 * time.Minute), 0, 10*time.Minute - slack/5, true, 10 * time.Minute, false},
		"longer than the access": {in(10 * time.Minute), 0, 20 * time.Minute, false, 10 * time.Minute, false},
		"the access has ended":   {in(0), -time.Hour, -2 * time.Second, false, 0, true},
	} {
		a := newAccess()
		a.Spec.Expires = tc.expires
		creds := &credentials{issued: now.Add(tc.begin), notAfter: now.Add(tc.end), asked: asked(a)}
		if got := creds.inTime(a, now); got != tc.in {
			t.Errorf("%s: in time: %v", name, got)
		}
		if got := creds.renewal(a).Sub(now); got.Round(time.Millisecond) != tc.renewal {
			t.Errorf("%s: renewed in %s", name, got)
		}
		if got := ended(a, now); got != tc.ended {
			t.Errorf("%s: ended: %v", name, got)
		}
	}
	a := newAccess()
	a.Spec.Expires = in(5 * time.Minute)
	if got := life(a, now); got >= 5*time.Minute || got < 5*time.Minute-slack {
		t.Errorf("the life of the last credentials is %s", got)
	}
}

// TestLongerLife: what an access says anew of the life of its credentials counts after a minute,
// and who shortened them is asked no more often for it.
func TestLongerLife(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	a := newAccess()
	creds := &credentials{issued: now, notAfter: now.Add(time.Hour), asked: asked(a)}
	day := int64(24 * 3600)
	a.Spec.ExpirationSeconds = &day
	if !creds.inTime(a, now) || creds.inTime(a, now.Add(time.Minute)) || creds.shortened(a) != "" {
		t.Errorf("they are renewed at %s; %q", creds.renewal(a), creds.shortened(a))
	}
	creds.asked = asked(a) // it gave an hour again
	if !creds.inTime(a, now.Add(39*time.Minute)) ||
		!strings.HasSuffix(creds.shortened(a), "good for 1h0m0s in place of 24h0m0s") {
		t.Errorf("they are renewed at %s; %q", creds.renewal(a), creds.shortened(a))
	}
	end := metav1.NewTime(now.Add(time.Hour))
	a.Spec.Expires = &end
	creds = &credentials{issued: now, notAfter: now.Add(life(a, now)), asked: asked(a)}
	if got := creds.shortened(a); got != "" {
		t.Errorf("the access itself ends: %q", got)
	}
}

// endingCA is a CA for clients that ends.
func endingCA(t *testing.T, end time.Time) *pki.CA {
	t.Helper()
	key, keyPEM, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: end, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pair := pki.Pair{Cert: filepath.Join(t.TempDir(), "ca.crt"), Key: filepath.Join(t.TempDir(), "ca.key")}
	if err := errors.Join(os.WriteFile(pair.Key, keyPEM, 0o600), os.WriteFile(pair.Cert,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)); err != nil {
		t.Fatal(err)
	}
	ca, err := pki.LoadCA(pair)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// TestCAEnds: a certificate that ends with its CA before its time is kept as others are, and none
// is made by a CA that has ended.
func TestCAEnds(t *testing.T) {
	a, now := newAccess(), time.Now()
	ca := endingCA(t, now.Add(15*time.Minute))
	creds, err := certify(a, "uid", ca, now)
	if err != nil {
		t.Fatal(err)
	}
	has := map[string][]byte{corev1.TLSCertKey: creds.certificate, corev1.TLSPrivateKeyKey: creds.key}
	for after, want := range map[time.Duration]bool{0: true, 9 * time.Minute: true, 11 * time.Minute: false} {
		if got := certified(a, "uid", has, creds.asked, ca, now.Add(after)); (got != nil) != want {
			t.Errorf("after %s it is taken: %v", after, got != nil)
		}
	}
	if !strings.Contains(creds.shortened(a), "in place of 1h0m0s") {
		t.Errorf("nothing says that it is shortened: %q", creds.shortened(a))
	}
	if creds, err := certify(a, "uid", ca, now.Add(16*time.Minute)); err == nil {
		t.Errorf("a CA that has ended made one until %s", creds.notAfter)
	}
}

// tenants are what a directory knows, and what it finds by asking.
type tenants struct{ here, found *tenantapi.Tenant }

func (t *tenants) Known(string) *tenantapi.Tenant { return t.here }

func (t *tenants) Get(context.Context, string) (*tenantapi.Tenant, error) {
	if t.here != nil {
		return t.here, nil
	}
	return t.found, nil
}

func (t *tenants) Follow(context.Context, directory.Follower) (func(), bool) { return func() {}, true }

// TestOtherPartition: nothing is made for a tenant of another partition, whose changes nobody tells.
func TestOtherPartition(t *testing.T) {
	is := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}
	going := is.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	for name, tc := range map[string]struct {
		tenants
		placed string
		reason string
	}{
		"here":                 {tenants{here: is}, "main", ""},
		"of another partition": {tenants{found: is}, "tp2", tenantapi.ReasonOtherPartition},
		"used by nobody":       {tenants{found: is}, "", ""},
		"and placed here":      {tenants{found: is}, "main", ""},
		"nowhere":              {tenants{}, "", tenantapi.ReasonNoTenant},
		"being deleted":        {tenants{here: going}, "", tenantapi.ReasonTerminating},
		"the system": {tenants{here: &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "system"}}}, "",
			tenantapi.ReasonNoTenant},
	} {
		c := &controller{o: Options{Tenants: &tc.tenants, Partition: "main"},
			placed: func(context.Context, string) (string, error) { return tc.placed, nil }}
		got, err := c.tenant(t.Context(), "team-a")
		var why *failure
		if tc.reason == "" && (err != nil || got != is) ||
			tc.reason != "" && (!errors.As(err, &why) || why.reason != tc.reason) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if tc.reason == tenantapi.ReasonOtherPartition && !strings.Contains(fmt.Sprint(err), "URL/partitions/tp2") {
			t.Errorf("%s: nobody knows where to make it: %v", name, err)
		}
	}
	unknown := errors.New("home is away")
	c := &controller{o: Options{Tenants: &tenants{found: is}},
		placed: func(context.Context, string) (string, error) { return "", unknown }}
	if _, err := c.tenant(t.Context(), "team-a"); !errors.Is(err, unknown) {
		t.Errorf("without an answer: %v", err)
	}
}

// TestCertificates: a Secret's certificate is used as long as it is what the access says of this
// tenant, signed by the CA of today, and belongs to the key.
func TestCertificates(t *testing.T) {
	ca, now := newCA(t), time.Now()
	a := newAccess()
	creds, err := certify(a, "tenant-uid", ca, now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := certify(a, "tenant-uid", ca, now)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := pki.ParseCerts(creds.certificate)
	if err != nil {
		t.Fatal(err)
	}
	if s := chain[0].Subject; s.CommonName != "argocd" || s.SerialNumber != "tenant-uid" ||
		fmt.Sprint(s.Organization) != "[tenant:team-a]" || len(s.OrganizationalUnit) != 2 {
		t.Errorf("the subject is %v", s)
	}
	if left := creds.notAfter.Sub(now); left > time.Hour+time.Minute || left < 59*time.Minute {
		t.Errorf("it is good for %s", left)
	}
	has := map[string][]byte{corev1.TLSCertKey: creds.certificate, corev1.TLSPrivateKeyKey: creds.key}
	if got := certified(a, "tenant-uid", has, creds.asked, ca, now); got == nil ||
		!got.notAfter.Equal(creds.notAfter) {
		t.Fatalf("it is not taken: %v", got)
	}
	said := creds.asked
	changed := func(change func(*tenantapi.TenantAccess)) *tenantapi.TenantAccess {
		out := newAccess()
		change(out)
		return out
	}
	for name, is := range map[string]*credentials{
		"a tenant made again": certified(a, "later-uid", has, said, ca, now),
		"another CA":          certified(a, "tenant-uid", has, said, newCA(t), now),
		"later":               certified(a, "tenant-uid", has, said, ca, now.Add(41*time.Minute)),
		"another key": certified(a, "tenant-uid", map[string][]byte{corev1.TLSCertKey: creds.certificate,
			corev1.TLSPrivateKeyKey: other.key}, said, ca, now),
		"nothing": certified(a, "tenant-uid", nil, said, ca, now),
		"another user": certified(changed(func(a *tenantapi.TenantAccess) { a.Spec.User = "x" }), "tenant-uid", has,
			said, ca, now),
		"another group": certified(changed(func(a *tenantapi.TenantAccess) { a.Spec.Groups = nil }), "tenant-uid", has,
			said, ca, now),
		"another tenant": certified(changed(func(a *tenantapi.TenantAccess) { a.Spec.Tenant = "x" }), "tenant-uid",
			has, said, ca, now),
	} {
		if is != nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}

// TestContents: what Flux, Cluster API and Argo CD read.
func TestContents(t *testing.T) {
	a := newAccess()
	a.Spec.Namespace = "apps"
	creds := &credentials{certificate: []byte("cert"), key: []byte("key")}
	data, err := contents(a, "https://192.0.2.1:6443", []byte("ca"), creds)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data["value"])
	if err != nil || config.Host != "https://192.0.2.1:6443/tenants/team-a" || string(config.CAData) != "ca" ||
		string(config.CertData) != "cert" || string(config.KeyData) != "key" || config.BearerToken != "" {
		t.Errorf("%+v, %v", config, err)
	}
	again, err := contents(a, "https://192.0.2.1:6443", []byte("ca"), creds)
	if err != nil || !bytes.Equal(again["value"], data["value"]) {
		t.Errorf("it is another one each time: %v", err)
	}
	a.Spec.Secret.Format = tenantapi.FormatArgoCD
	a.Spec.Secret.Labels = map[string]string{"env": "prod", tenantapi.AccessLabel: "y", argoLabel: "repository"}
	if data, err = contents(a, "https://192.0.2.1:6443", []byte("ca"), creds); err != nil {
		t.Fatal(err)
	}
	var argo struct {
		TLSClientConfig struct {
			Insecure                  bool
			CAData, CertData, KeyData []byte
		}
		BearerToken string
	}
	if err := json.Unmarshal(data["config"], &argo); err != nil {
		t.Fatal(err)
	}
	if tls := argo.TLSClientConfig; string(tls.CAData) != "ca" || string(tls.CertData) != "cert" ||
		string(tls.KeyData) != "key" || tls.Insecure || string(data["name"]) != "team-a" ||
		string(data["server"]) != "https://192.0.2.1:6443/tenants/team-a" || string(data["namespaces"]) != "apps" ||
		data["value"] != nil {
		t.Errorf("%s", data)
	}
	if labels := labelsOf(a); len(labels) != 3 || labels[argoLabel] != "cluster" || labels["env"] != "prod" ||
		labels[tenantapi.AccessLabel] != "x" {
		t.Errorf("%v", labels)
	}
	a.Spec.User, a.Spec.ServiceAccount = "", &tenantapi.AccessAccount{Namespace: "default", Name: "builder"}
	a.Spec.Secret.Format = tenantapi.FormatKubeconfig
	if data, err = contents(a, "https://a", nil, &credentials{token: "t"}); err != nil {
		t.Fatal(err)
	}
	if config, err = clientcmd.RESTConfigFromKubeConfig(data["value"]); err != nil || config.BearerToken != "t" ||
		len(config.CertData) > 0 || string(data["token"]) != "t" {
		t.Errorf("%+v, %v", config, err)
	}
}

func TestReadToken(t *testing.T) {
	claims := base64.RawURLEncoding.EncodeToString([]byte(
		`{"exp":1000000000,"iat":900000000,"kubernetes.io":{"serviceaccount":{"uid":"u1"}}}`))
	if uid, of, err := readToken("a." + claims + ".b"); err != nil || uid != "u1" || of.notAfter.Unix() != 1e9 ||
		of.issued.Unix() != 9e8 {
		t.Errorf("%s, %+v, %v", uid, of, err)
	}
	for _, token := range []string{"", "a.b", "a.!.c", "a.e30K"} {
		if _, _, err := readToken(token); err == nil {
			t.Errorf("%q is read", token)
		}
	}
}

// TestBindingsAreOfOneAccess: the name of a binding is that of no other access, nor of a later one.
func TestBindingsAreOfOneAccess(t *testing.T) {
	a, b := newAccess(), newAccess()
	b.UID = "later"
	if bindingOf(a).Name == bindingOf(b).Name {
		t.Errorf("both are called %s", bindingOf(a).Name)
	}
	a.Spec.Role = ""
	if bindingOf(a) != nil {
		t.Error("nothing is bound by an access without a role")
	}
}

// TestErrorsOfTheServerAreNotTold: the users of a tenant read no path of the server's files in a condition;
// administrators do.
func TestErrorsOfTheServerAreNotTold(t *testing.T) {
	of := fmt.Errorf("signing: %w", &problem.Precondition{What: "certificate authority file /var/lib/x",
		Err: os.ErrNotExist})
	if got := (&work{isOwn: true}).told(of); !errors.Is(got, errOfServer) || strings.Contains(got.Error(), "/var") {
		t.Errorf("a tenant is told: %v", got)
	}
	other := errors.New("the namespace does not answer")
	for _, err := range []error{(&work{}).told(of), (&work{isOwn: true}).told(other)} {
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, other) {
			t.Errorf("%v is told", err)
		}
	}
}
