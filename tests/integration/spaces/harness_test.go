// Package spaces_test runs the whole control plane in this process, in a
// network namespace of its own, and looks at it as users of tenants do.
package spaces_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/logging"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/internal/tenantclient"
	"github.com/a4s-io/a4s/server"
)

const (
	// deadline bounds every wait of these tests.
	deadline = 90 * time.Second
	// address is that of the machine, as far as these tests go.
	address = "192.0.2.1"
)

// plane is a running control plane.
type plane struct {
	*server.Running
	dir    string
	group  *component.Group
	admin  kubernetes.Interface
	etcd   *clientv3.Client
	caCert *x509.Certificate
	caKey  any
}

func settings(dir string) *config.Server {
	cfg := &config.Server{
		DisableAgent:         true,
		HTTPSListenPort:      6443,
		ClusterCIDR:          "10.42.0.0/16",
		ServiceCIDR:          "10.43.0.0/16",
		ServiceNodePortRange: "30000-32767",
		ClusterDNS:           "10.43.0.10",
		ClusterDomain:        "cluster.local",
		FlannelBackend:       "vxlan",
		WriteKubeconfig:      filepath.Join(dir, "admin.yaml"),
		WriteKubeconfigMode:  "600",
	}
	cfg.Agent.DataDir = dir
	cfg.Agent.NodeName = "server"
	return cfg
}

// start runs a control plane until the test ends.
func start(t *testing.T, change func(*config.Server)) *plane {
	t.Helper()
	out := io.Writer(os.Stderr)
	if _, err := logging.Setup(logging.Options{Output: out}); err != nil {
		t.Fatal(err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	a, err := netlink.ParseAddr(address + "/32")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrReplace(lo, a); err != nil {
		t.Fatal(err)
	}
	cfg := settings(t.TempDir())
	if change != nil {
		change(cfg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	p := &plane{group: component.NewGroup(logrus.NewEntry(logrus.StandardLogger())), dir: cfg.Agent.DataDir}
	t.Cleanup(func() { _ = p.group.Stop() })
	if p.Running, err = server.Start(ctx, p.group, cfg, net.ParseIP(address)); err != nil {
		t.Fatalf("starting the control plane: %v", err)
	}
	p.Admin.QPS = -1
	if p.admin, err = kubernetes.NewForConfig(p.Admin); err != nil {
		t.Fatal(err)
	}
	p.connectEtcd(t)
	p.loadCA(t)
	return p
}

func (p *plane) connectEtcd(t *testing.T) {
	t.Helper()
	files := pki.FilesIn(filepath.Join(p.dir, "server", "tls"))
	secure, err := transport.TLSInfo{TrustedCAFile: files.EtcdServerCA.Cert, CertFile: files.EtcdClient.Cert, KeyFile: files.EtcdClient.Key}.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	if p.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{"https://127.0.0.1:2379"}, TLS: secure, DialTimeout: deadline}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.etcd.Close() }) //nolint:errcheck // the server goes with it
}

// keys are those in etcd that contain part.
func (p *plane) keys(t *testing.T, part string) []string {
	t.Helper()
	resp, err := p.etcd.Get(t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, kv := range resp.Kvs {
		if key := string(kv.Key); strings.Contains(key, part) {
			found = append(found, key)
		}
	}
	return found
}

func (p *plane) loadCA(t *testing.T) {
	t.Helper()
	files := pki.FilesIn(filepath.Join(p.dir, "server", "tls"))
	pair, err := tls.LoadX509KeyPair(files.ClientCA.Cert, files.ClientCA.Key)
	if err != nil {
		t.Fatal(err)
	}
	p.caCert, p.caKey = pair.Leaf, pair.PrivateKey
}

// userKey is made once: the tests are about names, not about keys.
var userKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// user is a client with a certificate of these organizations and units.
func (p *plane) user(t *testing.T, name string, organizations, units []string) *rest.Config {
	t.Helper()
	key, err := userKey()
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
		NotBefore:    time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, p.caCert, key.Public(), p.caKey)
	if err != nil {
		t.Fatal(err)
	}
	return &rest.Config{
		Host: p.URL, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile:   p.Admin.CAFile,
			CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			KeyData:  pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		},
	}
}

// space is a tenant with what a test does in it.
type space struct {
	name    string
	config  *rest.Config
	client  kubernetes.Interface
	dynamic dynamic.Interface
}

// tenant makes a tenant and waits until it can be used. The client is that of
// its user admin, on short paths.
func (p *plane) tenant(t *testing.T, name string) *space {
	t.Helper()
	tenants, err := tenantclient.New(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tenants.Create(t.Context(), &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating tenant %s: %v", name, err)
	}
	s := p.as(t, name, p.user(t, "admin", []string{"tenant:" + name}, nil))
	eventually(t, "the default namespace of "+name+" and its service account", func(ctx context.Context) (bool, error) {
		_, err := s.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	return s
}

func (p *plane) as(t *testing.T, tenant string, cfg *rest.Config) *space {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &space{name: tenant, config: cfg, client: client, dynamic: dyn}
}

// get is the raw answer to a GET.
func get(t *testing.T, cfg *rest.Config, path string) (int, string) {
	t.Helper()
	return do(t, cfg, http.MethodGet, path, "", nil)
}

// do sends one raw request; headers are "Name: value".
func do(t *testing.T, cfg *rest.Config, method, path, body string, headers []string) (int, string) {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, cfg.Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(fmt.Errorf("reading the answer to %s %s: %w", method, path, err))
	}
	return resp.StatusCode, string(answer)
}

func eventually(t *testing.T, what string, check func(ctx context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, deadline, true, check); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

func quantity(s string) resource.Quantity { return resource.MustParse(s) }
