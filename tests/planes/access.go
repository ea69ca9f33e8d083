package planes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// Certificate is the identity of a user with these organizations and units, as
// the administrator of the cluster could issue it.
func Certificate(t testing.TB, files *pki.Files, name string, organizations, units []string) rest.TLSClientConfig {
	t.Helper()
	return CertificateSince(t, files, time.Now().Add(-time.Minute), name, organizations, units)
}

// CertificateSince is one that has been valid since then.
func CertificateSince(
	t testing.TB, files *pki.Files, since time.Time, name string, organizations, units []string,
) rest.TLSClientConfig {
	t.Helper()
	ca, err := tls.LoadX509KeyPair(files.ClientCA.Cert, files.ClientCA.Key)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: organizations, OrganizationalUnit: units},
		NotBefore:    since, NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return rest.TLSClientConfig{
		CAFile:   files.ServerCA.Cert,
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyData:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
	}
}

// User is the access of a user with these organizations and units.
func (p *Plane) User(t testing.TB, name string, organizations, units []string) *rest.Config {
	t.Helper()
	return &rest.Config{Host: p.URL, QPS: -1, TLSClientConfig: Certificate(t, p.Files, name, organizations, units)}
}

// AdminOf is the name and the organization of a tenant's administrator.
func AdminOf(tenant string) (name string, organizations []string) {
	return "admin", []string{"tenant:" + tenant}
}

// CreateTenant makes a tenant. It can be used once AwaitAccount returns for its
// administrator and namespace default.
func CreateTenant(t testing.TB, admin *rest.Config, name string) {
	t.Helper()
	tenants, err := tenantapi.NewClient(admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tenants.Create(t.Context(), &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating tenant %s: %v", name, err)
	}
}

// AwaitAccount waits until a namespace has its service account, without which
// no pod can be made in it.
func AwaitAccount(t testing.TB, cfg *rest.Config, namespace string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	// Until then there may be no namespace and no role of this user either.
	var last error
	defer func() {
		if t.Failed() {
			t.Logf("the last answer was: %v", last)
		}
	}()
	Eventually(t, "the service account of namespace "+namespace, func(ctx context.Context) (bool, error) {
		_, last = client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return last == nil, nil
	})
}

// Eventually waits until check is true.
func Eventually(t testing.TB, what string, check func(ctx context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, Deadline, true, check); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// EtcdTLS is what a client of the datastore needs to be let in.
func (p *Plane) EtcdTLS(t testing.TB) *tls.Config {
	t.Helper()
	cfg, err := transport.TLSInfo{TrustedCAFile: p.Files.EtcdServerCA.Cert, CertFile: p.Files.EtcdClient.Cert,
		KeyFile: p.Files.EtcdClient.Key}.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Etcd is a client of the datastore until the test ends. It may be any but an
// etcd that asks for certificates.
func (p *Plane) Etcd(t testing.TB) *clientv3.Client {
	t.Helper()
	config := clientv3.Config{
		Endpoints:   []string{"unix://" + filepath.Join(p.Config.Agent.DataDir, "server", "db", "kine.sock")},
		DialTimeout: Deadline,
	}
	if p.Config.DatastoreEndpoint == "" {
		config.Endpoints, config.TLS = []string{"https://127.0.0.1:2379"}, p.EtcdTLS(t)
	}
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() }) //nolint:errcheck // the datastore ends as well
	return client
}
